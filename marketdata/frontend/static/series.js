// The types of the chart: how the library draws a candle of each type. Up and down differ by the body, hollow or filled, and by
// the lightness of their colours, so that nobody needs to tell red from green. A candle that can still change is lighter.

import { AreaSeries, BarSeries, CandlestickSeries, LineSeries } from './vendor/lightweight-charts.mjs';

// `point({row, before, after}, colours, drawn)` returns what the library draws for a candle. `before` and `after` are the candles
// beside it, or undefined, and `drawn` maps a price to the number to draw.
export const SERIES = {
  candles: { kind: CandlestickSeries, point: ({ row }, colours, drawn) => candle(row, isUp(row), isUp(row), colours, drawn) },
  // As usual for this type, the colour compares the close with the close before it, and the body compares it with the open.
  hollow: { kind: CandlestickSeries, point: ({ row, before }, colours, drawn) => candle(row, Number(row.c) >= Number(before?.c ?? row.o), Number(row.c) > Number(row.o), colours, drawn) },
  bars: { kind: BarSeries, point: ({ row }, colours, drawn) => ({ ...prices(row, drawn), color: colourOf(row, isUp(row), colours) }) },
  line: { kind: LineSeries, point: (rows, colours, drawn) => ({ value: drawn(rows.row.c), ...(leadsToOpen(rows) && { color: colours.lineOpen }) }) },
  area: { kind: AreaSeries, point: (rows, colours, drawn) => ({ value: drawn(rows.row.c), ...(leadsToOpen(rows) && { lineColor: colours.lineOpen, topColor: colours.areaOpen }) }) },
};

// Whether the line from a candle to the next one can still change. The library draws it in the colour of its first point.
const leadsToOpen = ({ row, after }) => !(after ?? row).finalized;

export const isUp = ({ o, c }) => Number(c) >= Number(o);

const colourOf = ({ finalized }, isRise, { up, upOpen, down, downOpen }) => (finalized ? (isRise ? up : down) : (isRise ? upOpen : downOpen));

const prices = ({ o, h, l, c }, drawn) => ({ open: drawn(o), high: drawn(h), low: drawn(l), close: drawn(c) });

function candle(row, isRise, isHollow, colours, drawn) {
  const colour = colourOf(row, isRise, colours);
  return { ...prices(row, drawn), color: isHollow ? colours.paper : colour, borderColor: colour, wickColor: colour };
}

export function volumeBar(row, { upVolume, upVolumeOpen, downVolume, downVolumeOpen }) {
  return { value: Number(row.v), color: colourOf(row, isUp(row), { up: upVolume, upOpen: upVolumeOpen, down: downVolume, downOpen: downVolumeOpen }) };
}
