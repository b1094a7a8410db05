// The types of the chart: how the library draws a candle of each type. Up and down differ by the body, hollow or filled, and by
// the lightness of their colours, so that nobody needs to tell red from green. A candle that can still change is lighter.

import * as decimals from './decimals.js';
import { AreaSeries, BarSeries, CandlestickSeries, LineSeries } from './vendor/lightweight-charts.mjs';

// `point({row, before, after}, colours, drawn)` returns what the library draws for a candle. `before` and `after` are the candles
// beside it, or undefined, and `drawn` maps a price to the number to draw.
export const SERIES = {
  candles: { kind: CandlestickSeries, point: ({ row }, colours, drawn) => candle(row, direction(row), direction(row) > 0, colours, drawn) },
  // As usual for this type, the colour compares the close with the close before it, and the body compares it with the open.
  hollow: { kind: CandlestickSeries, point: ({ row, before }, colours, drawn) => candle(row, decimals.compare(row.c, before?.c ?? row.o), direction(row) > 0, colours, drawn) },
  bars: { kind: BarSeries, point: ({ row }, colours, drawn) => ({ ...prices(row, drawn), color: colourOf(row, direction(row), colours) }) },
  line: { kind: LineSeries, point: (rows, colours, drawn) => ({ value: drawn(rows.row.c), ...(leadsToOpen(rows) && { color: colours.lineOpen }) }) },
  area: { kind: AreaSeries, point: (rows, colours, drawn) => ({ value: drawn(rows.row.c), ...(leadsToOpen(rows) && { lineColor: colours.lineOpen, topColor: colours.areaOpen }) }) },
};

// Whether the line from a candle to the next one can still change. The library draws it in the colour of its first point.
const leadsToOpen = ({ row, after }) => !(after ?? row).finalized;

// Above 0 for a candle that closes above its open, below 0 for one that closes below it. An equal close is neither up nor down.
export const direction = ({ o, c }) => decimals.compare(c, o);

// The candle as the API has it with open=previous: it opens at the close of the candle before, if there is one.
export function connected(row, before) {
  if (!before) return row;
  const [isAbove, isBelow] = [decimals.compare(before.c, row.h) > 0, decimals.compare(before.c, row.l) < 0];
  return { ...row, o: before.c, h: isAbove ? before.c : row.h, l: isBelow ? before.c : row.l };
}

const colourOf = ({ finalized }, rise, { up, upOpen, down, downOpen, same, sameOpen }) => {
  const [final, open] = rise > 0 ? [up, upOpen] : rise < 0 ? [down, downOpen] : [same, sameOpen];
  return finalized ? final : open;
};

const prices = ({ o, h, l, c }, drawn) => ({ open: drawn(o), high: drawn(h), low: drawn(l), close: drawn(c) });

function candle(row, rise, isHollow, colours, drawn) {
  const colour = colourOf(row, rise, colours);
  return { ...prices(row, drawn), color: isHollow ? colours.paper : colour, borderColor: colour, wickColor: colour };
}

export function volumeBar(row, { upVolume, upVolumeOpen, downVolume, downVolumeOpen, sameVolume, sameVolumeOpen }) {
  const volumes = { up: upVolume, upOpen: upVolumeOpen, down: downVolume, downOpen: downVolumeOpen, same: sameVolume, sameOpen: sameVolumeOpen };
  return { value: Number(row.v), color: colourOf(row, direction(row), volumes) };
}
