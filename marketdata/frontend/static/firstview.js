// The candles that a view begins with: those in it and around it, and the nearest ones on both sides.

import { PHONE } from './dom.js';
import { width } from './intervals.js';
import { now } from './state.js';

const NEWEST = 600; // candles
const MIN_BARS = 40;
const MARGIN = 10; // bars beside few candles
const BESIDE = 300;
export const LARGEST = 10_000; // a limit of the API

// {range, symbol, tag, rows, hasOlder, hasNewer} of a range {bars, from, to}, where `bars` may be null; `read(query)` gives
// {content, tag}. When `isFirm` is false and there is no candle from `from` to `to`, those of the newest `bars` instead.
export async function firstView(read, range, interval, isFirm) {
  const { bars, from, to } = range;
  if (from === null) return newest(read, range, interval);
  const pad = Math.ceil((to - from) / 2);
  const { content, tag } = await read({ startTime: Math.max(from - pad, 0), endTime: to + pad, limit: LARGEST });
  const rows = content.candles;
  if (!isFirm && !rows.some(({ t }) => t >= from && t <= to)) return newest(read, { bars, from: null, to: null }, interval);
  const [first, last] = [rows[0]?.t ?? from, rows.at(-1)?.t ?? from - 1];
  const isLast = !content.more && to + pad >= now();
  // A long time without candles is drawn shortened, which takes the candles before and after it.
  const [older, newer] = await Promise.all([
    rows.length && first <= from ? null : read({ endTime: Math.max(first - 1, 0), limit: BESIDE }),
    last >= to || isLast ? null : read({ startTime: last + 1, limit: BESIDE }),
  ]);
  return {
    range, symbol: content.symbol, tag, rows: [...older?.content.candles ?? [], ...rows, ...newer?.content.candles ?? []],
    hasOlder: older?.content.more ?? true, hasNewer: newer?.content.more ?? !isLast,
  };
}

async function newest(read, range, interval) {
  const { content, tag } = await read({ limit: Math.min(Math.max(NEWEST, Math.ceil(range.bars * 1.5)), LARGEST) });
  const bars = range.bars ?? fitting(content, interval);
  return { range: { ...range, bars }, symbol: content.symbol, tag, rows: content.candles, hasOlder: content.more, hasNewer: false };
}

// How many bars are shown where nobody has chosen it: few where all that is known are a few candles.
function fitting({ candles, more }, interval) {
  const most = PHONE.matches ? 80 : 160;
  if (more || !candles.length) return most;
  const known = (candles.at(-1).t - candles[0].t) / width(interval);
  return Math.min(Math.max(Math.ceil(known) + MARGIN, MIN_BARS), most);
}
