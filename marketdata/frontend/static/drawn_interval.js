// Chooses the interval that is drawn: the user's choice, or a coarser one while its bars would be narrower than a pixel.

import { width, WIDTHS } from './intervals.js';

const STORED = ['1m', '15m', '30m', '1h', '4h', '1d']; // the API has stored their candles, and reads them quicker
const NEAR = 3; // a stored interval is preferred if it is at most this many times as long as the finest one that fits
const RETURN = 0.75; // a finer interval is drawn again when its bars fill at most this part of the width

// The finest interval from `chosen` on with at most `pixels` bars. `barsOf(interval)` is the number of bars in the view.
export function fitting(chosen, barsOf, pixels) {
  const coarser = [...WIDTHS.keys()].filter((each) => width(each) >= width(chosen));
  const finest = coarser.find((each) => barsOf(each) <= pixels) ?? '1M';
  if (finest === chosen) return chosen;
  return coarser.find((each) => STORED.includes(each) && width(each) >= width(finest) && width(each) <= NEAR * width(finest)) ?? finest;
}

// The interval in which a view should be drawn that has `bars` bars of the interval `drawn`.
export function wanted({ chosen, drawn, bars }, barsOf, pixels) {
  if (bars > pixels) return fitting(chosen, (interval) => (interval === drawn ? bars : barsOf(interval)), pixels);
  if (drawn === chosen) return drawn;
  const finer = fitting(chosen, barsOf, RETURN * pixels);
  return width(finer) < width(drawn) ? finer : drawn;
}

// The interval in which a range {bars, from, to} is opened. `bars` counts bars of the chosen interval.
export function forRange({ bars, from, to }, chosen, pixels) {
  const length = from === null ? (bars ?? 0) * width(chosen) : to - from;
  return fitting(chosen, (interval) => length / width(interval), pixels);
}

// A range whose `bars` count bars of the drawn interval instead.
export const drawnRange = (range, chosen, drawn) => ({ ...range, bars: range.bars && range.bars * width(chosen) / width(drawn) });
