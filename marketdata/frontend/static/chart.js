// Draws the candles with the chart library.

import { ColorType, createChartEx, CrosshairMode, HistogramSeries, LineSeries, LineStyle, PriceLineSource } from './vendor/lightweight-charts.mjs';
import { AxisMarks } from './axis_marks.js';
import { $ } from './dom.js';
import { bucketOpen, nextOpen, width } from './intervals.js';
import { Breaks, Corrections, Hatching } from './backdrop.js';
import { IndicatorSeries } from './indicator_series.js';
import { LocalTimeScale, tickMark, timeLabel } from './local_time_scale.js';
import { palette } from './palette.js';
import { PriceScale } from './price_scale.js';
import { connected, SERIES, volumeBar } from './series.js';
import * as timeAxis from './time_axis.js';

const MAX_NEW = 100; // empty buckets that are drawn before a candle without a redraw
const RIGHT_MARGIN = 6; // bars
const SPARE = 1000; // bars beside the view whose candles the library has
const MIN_SPACING = 0.5; // pixels; bars are so narrow only until a coarser interval is loaded
const VOLUME_TOP = 0.84; // of the height

let chart = null;
let type = 'candles';
let series = null; // of the kind SERIES[type].kind
let volume = null;
let axis = null; // a series with one point, at the last slot: the library's time axis ends at the last point of any series
let indicators = null;
let colours = null;
let candles = null;
let isConnected = true; // whether a candle opens at the close of the candle before
let slots = [];
let given = { from: Infinity, to: -Infinity }; // the library has the candles with from <= t < to
let requestedRange = null; // the range that the library shows from the next frame on
let placed = null; // the time of the candle on which moveCrosshair() has put the crosshair
let finerBars = 1; // see open()
let isDrawing = false; // whether draw() is running; the ranges of its intermediate states do not matter
let isOpening = false; // whether open() was called, but no range was set yet
let onPaint = null;
let newestPrice = null; // a decimal
let newestLine = null; // the line across the chart at this price
let newest = null; // the opening time of the newest candle; null when newer ones are not loaded
const timeScale = new LocalTimeScale();
const prices = new PriceScale({ lowest: 0 });
const marks = new AxisMarks(prices, () => onPaint());
const hatching = new Hatching();
const breaks = new Breaks();
const corrections = new Corrections();

// Calls `onRange` when the visible times change, `onCrosshair` with the time under the pointer, or null, and `onPaint` when the
// price axis is painted.
export function start({ onRange, onCrosshair, ...given }) {
  ({ onPaint } = given);
  colours = palette();
  chart = createChartEx($('chart'), timeScale, {
    autoSize: true,
    layout: { attributionLogo: true, fontSize: 12 },
    grid: { horzLines: { visible: false } }, // see axis_marks.js
    crosshair: { mode: CrosshairMode.Normal },
    rightPriceScale: { scaleMargins: { top: 0.14, bottom: 1 - VOLUME_TOP + 0.02 }, minimumWidth: 72, tickMarkDensity: 1e6 },
    timeScale: { rightOffset: RIGHT_MARGIN, shiftVisibleRangeOnNewBar: false, lockVisibleTimeRangeOnResize: true, minBarSpacing: MIN_SPACING, tickMarkFormatter: (time, mark) => tickMark(time, mark, timeScale.zone), tickMarkMaxCharacterLength: 9 },
    localization: { timeFormatter: (time) => timeLabel(time, candles) },
    kineticScroll: { mouse: false, touch: true },
  });
  volume = chart.addSeries(HistogramSeries, { priceScaleId: 'volume', lastValueVisible: false, priceLineVisible: false });
  axis = chart.addSeries(LineSeries, { priceScaleId: 'axis', visible: false, lastValueVisible: false, priceLineVisible: false });
  volume.priceScale().applyOptions({ scaleMargins: { top: VOLUME_TOP, bottom: 0 } });
  chart.timeScale().subscribeVisibleLogicalRangeChange((range) => {
    requestedRange = null;
    if (!range || !candles || isDrawing) return;
    follow(range);
    setBase();
    labelLast();
    if (!isOpening) onRange();
  });
  chart.subscribeCrosshairMove(({ time, point, sourceEvent }) => {
    if (sourceEvent) placed = null;
    onCrosshair(time === undefined || !point ? null : fromAxis(time));
  });
  indicators = new IndicatorSeries(chart, prices);
  addSeries();
  recolour();
}

function addSeries() {
  series = chart.addSeries(SERIES[type].kind, { priceFormat: prices.format, priceLineSource: PriceLineSource.LastVisible, priceLineVisible: false, autoscaleInfoProvider: visiblePrices });
  for (const each of [marks, hatching, breaks, corrections]) series.attachPrimitive(each);
  newestLine = null;
}

// -- times and prices ----------------------------------------------------------------------------------------------

const toAxis = (time) => time / 1000;
const fromAxis = (time) => time * 1000;

// The drawn range of the visible prices, for the library's autoscaleInfoProvider. Without candles, it lies around the last
// candle before the view.
function visiblePrices(found) {
  const range = found()?.priceRange;
  const seen = range ? null : candles && view();
  const row = seen && (candles.before(seen.to) ?? candles.first);
  if (!range && !row) return null;
  const [minValue, maxValue] = range ? prices.widened(range.minValue, range.maxValue) : prices.widened(prices.drawn(row.c), prices.drawn(row.c));
  return { priceRange: { minValue, maxValue } };
}

// 0 % is the close of the first visible candle.
function setBase() {
  const seen = view();
  const row = seen && (candles.rows[candles.index(seen.from)] ?? candles.last);
  if (row) prices.base = Number(row.c);
}

// -- data ----------------------------------------------------------------------------------------------------------

// candles.rows[at] as it is drawn.
const drawnRow = (at) => (isConnected ? connected(candles.rows[at], candles.rows[at - 1]) : candles.rows[at]);

// The candle of a time as it is drawn.
export const drawnAt = (t) => drawnRow(candles.index(t));

// What the series draws for candles.rows[at].
function point(at) {
  const [before, row, after] = [candles.rows[at - 1], drawnRow(at), candles.rows[at + 1]];
  return { time: toAxis(row.t), ...SERIES[type].point({ row, before, after }, colours, (price) => prices.drawn(price)) };
}

const volumePoint = (at) => ({ time: toAxis(candles.rows[at].t), ...volumeBar(drawnRow(at), colours) });

// Begins another view. `finerBars` is how many bars of the interval that the user has chosen one drawn bar replaces. With
// `keepsPrices`, the scale of a dragged price axis stays.
export function open(opened, { finerBars: replaced, keepsPrices }) {
  if (!keepsPrices) autoScale();
  candles = opened;
  timeScale.zone = candles.zone;
  finerBars = replaced;
  isOpening = true;
  corrections.clear();
  chart.timeScale().applyOptions({ timeVisible: width(candles.interval) < 86_400_000, secondsVisible: width(candles.interval) < 60_000 });
}

// Draws all loaded candles, and the empty buckets from `from` to `until`.
export function draw(from, until) {
  const before = anchoredRange();
  slots = candles.slots(from, until);
  newest = candles.hasNewer ? null : candles.last?.t ?? null;
  indicators.compute(candles);
  const range = before ? restored(before) : newestRange(0);
  isDrawing = true;
  fill(range);
  axis.setData(slots.map((t) => (t === slots.at(-1) ? axisPoint(t) : { time: toAxis(t) })));
  isDrawing = false;
  setBase();
  labelLast();
  if (before) restore(range);
}

// Gives the candles in and beside a range to the library. After a change, the library makes all its bars again, so that it would
// be slow with all loaded candles.
function fill(range = visibleRange()) {
  if (!slots.length || !range) return;
  const spare = Math.max(range.to - range.from, SPARE);
  const [from, to] = [range.from - spare, range.to + spare].map((position) => candles.index(timeAt(position)));
  given = { from: from ? candles.rows[from].t : -Infinity, to: candles.rows[to]?.t ?? Infinity };
  const rows = candles.rows.slice(from, to);
  series.setData(rows.map((row, at) => point(from + at)));
  volume.setData(rows.map((row, at) => volumePoint(from + at)));
  indicators.fill(candles, given);
}

// Called when the range has changed. Gives further candles to the library if the range reaches beyond those that it has.
function follow(range) {
  if (!slots.length || (timeAt(range.from) >= given.from && timeAt(range.to) < given.to)) return;
  fill(range);
}

// Draws one changed bucket. Returns false if the change needs draw().
export function drawOne({ t, after }) {
  const before = anchoredRange();
  if (slots.length && t > slots.at(-1)) extend(opensUntil(t));
  if (slots[index(t)] !== t) return false;
  indicators.compute(candles, t);
  if (t < given.from || t >= given.to) return true;
  const [last, at] = [slots.at(-1), candles.index(t)];
  series.update(after ? point(at) : { time: toAxis(t) }, t < last);
  volume.update(after ? volumePoint(at) : { time: toAxis(t) }, t < last);
  updateNext(after ? at + 1 : at);
  indicators.update(candles, t);
  newest = candles.hasNewer ? null : candles.last?.t ?? null;
  labelLast();
  if (before) restore(restored(before));
  return true;
}

// Draws the candle after a changed one again, because its open or its colour may depend on the changed close.
function updateNext(at) {
  const row = candles.rows[at];
  if (!row || row.t >= given.to) return;
  series.update(point(at), row.t < slots.at(-1));
  volume.update(volumePoint(at), row.t < slots.at(-1));
}

// The opening times of the buckets after the last slot up to `t`, or none if they are too many.
function opensUntil(t) {
  const opens = [];
  for (let open = nextOpen(slots.at(-1), candles.interval, candles.zone); open <= t; open = nextOpen(open, candles.interval, candles.zone)) {
    if (opens.push(open) > MAX_NEW) return [];
  }
  return opens;
}

// Appends empty buckets with these opening times.
export function extend(opens) {
  slots.push(...opens);
  for (const t of opens) axis.update(axisPoint(t));
}

const axisPoint = (t) => ({ time: toAxis(t), value: 0 });

// The visible range {from, to} in positions. The library applies a new range only in its next frame; until then, the
// requested range is returned.
const visibleRange = () => requestedRange ?? chart.timeScale().getVisibleLogicalRange();

function setVisibleRange(range) {
  chart.timeScale().setVisibleLogicalRange(range);
  requestedRange = range;
  follow(range);
  isOpening = false;
  requestAnimationFrame(() => {
    requestedRange = null;
    keepCrosshair();
  });
}

// The visible range with an anchor, by which restored() finds the range again after slots were added. The anchor is the
// newest candle if it is visible, so that the view follows it; otherwise it is the first visible slot.
function anchoredRange() {
  const range = slots.length ? visibleRange() : null;
  if (!range) return null;
  if (isNewestIn(range)) return { range, slot: index(newest), time: null };
  const slot = Math.min(Math.max(Math.round(range.from), 0), slots.length - 1);
  return { range, slot, time: slots[slot] };
}

// The range in which the slots of the anchor have their old places on the screen.
function restored({ range, slot, time }) {
  const anchor = time ?? newest;
  const moved = anchor === null ? 0 : index(anchor) - slot;
  return { from: range.from + moved, to: range.to + moved };
}

function restore(wanted) {
  const now = visibleRange();
  if (!now || Math.abs(now.from - wanted.from) > 1e-6) setVisibleRange(wanted);
}

const isNewestIn = ({ from, to }) => newest !== null && index(newest) >= from - 0.5 && index(newest) <= to + 0.5;

export const lastSlot = () => slots.at(-1);

export function clear() {
  slots = [];
  newest = null;
  for (const each of [series, volume, axis]) each.setData([]);
  indicators.clear();
  hatching.set([], colours);
  breaks.set([], colours);
}

export const flash = (times) => corrections.add(times.map(index), colours.current);

const index = (time) => timeAxis.indexOf(slots, time);
const timeAt = (position) => timeAxis.timeAt(slots, width(candles.interval), position);
const positionOf = (time) => timeAxis.positionOf(slots, width(candles.interval), time);

export const pixelsBetween = (one, other) => Math.abs(positionOf(one) - positionOf(other)) * chart.timeScale().options().barSpacing;

// -- the view -----------------------------------------------------------------------------------------------------

// Returns the view, or null without candles. `from` and `to` are its times in ms, and `bars` is the number of its bars. `left`
// and `right` say how many slots are loaded beside it. `hasNewest` says whether it contains the newest candle, `isNewest`
// whether showNewest() would show the same view.
export function view() {
  const range = visibleRange();
  if (!range || !slots.length) return null;
  const bars = Math.max(Number((range.to - range.from).toFixed(6)), 2);
  return {
    from: Math.round(timeAt(range.from)), to: Math.round(timeAt(range.to)), bars, left: range.from, right: slots.length - 1 - range.to,
    hasNewest: isNewestIn(range), isNewest: newest !== null && Math.abs(range.to - newestRange(bars).to) < 0.02,
  };
}

// The range of `bars` bars with the newest candle at the right, however old that candle is. A coarser interval keeps the width
// of the margin, so that a change of the interval does not move the candles.
function newestRange(bars) {
  const to = (newest === null ? slots.length - 1 : index(newest)) + Math.min(Math.max(RIGHT_MARGIN / finerBars, 1), bars / 4);
  return { from: to - bars, to };
}

export const showNewest = (bars) => setVisibleRange(newestRange(bars));

export function show(from, to) {
  setVisibleRange({ from: positionOf(from), to: positionOf(to) });
}

export function scrollBy(bars) {
  const range = visibleRange();
  if (range) setVisibleRange({ from: range.from + bars, to: range.to + bars });
}

export function zoom(factor) {
  const range = visibleRange();
  if (!range) return;
  if (view().isNewest) return showNewest((range.to - range.from) * factor);
  setVisibleRange({ from: range.to - (range.to - range.from) * factor, to: range.to });
}

// Puts the crosshair on the candle that is `step` candles after the last one that opens at or before `time`. If `time` is null,
// puts it on the last visible candle. Returns the candle's time.
export function moveCrosshair(time, step) {
  if (!candles?.rows.length) return null;
  const { rows } = candles;
  const at = time === null ? candles.index(view().to + 1) - 1 : candles.index(time + 1) - 1 + step;
  const row = rows[Math.min(Math.max(at, 0), rows.length - 1)];
  const position = positionOf(row.t);
  const range = visibleRange();
  if (position < range.from + 1) scrollBy(position - range.from - 2);
  if (position > range.to - 1) scrollBy(position - range.to + 2);
  place(row);
  return row.t;
}

function place(row) {
  placed = row.t;
  if (requestedRange) return; // the next frame places it in that range
  chart.setCrosshairPosition(prices.drawn(row.c), toAxis(row.t), series);
}

// Puts the crosshair of moveCrosshair() on its candle again: the library keeps its place on the screen.
function keepCrosshair() {
  const row = placed !== null && candles.rows[candles.index(bucketOpen(placed, candles.interval, candles.zone))];
  if (row) place(row);
}

export function clearCrosshair() {
  placed = null;
  chart.clearCrosshairPosition();
}

// -- appearance ----------------------------------------------------------------------------------------------------

// Chooses the scale of prices, 'linear', 'log' or 'percent'.
export function setScale(kind, isInverted) {
  series.priceScale().applyOptions({ invertScale: isInverted });
  autoScale();
  if (kind === prices.kind) return;
  prices.kind = kind;
  setNewestPrice(newestPrice);
  if (slots.length) fill();
}

// Chooses whether a candle opens at the close of the candle before.
export function setConnected(chosen) {
  if (chosen === isConnected) return;
  isConnected = chosen;
  if (slots.length) fill();
}

// Changes the type of the chart. The old series goes last, because the library forgets the times of a removed one, which would
// move the view.
export function setType(chosen) {
  if (chosen === type) return;
  const old = series;
  type = chosen;
  addSeries();
  colourSeries();
  if (slots.length) fill();
  chart.removeSeries(old);
}

// Changes the indicators, a list of {id, parameters}.
export function setIndicators(chosen) {
  indicators.choose(chosen, colours);
  if (!slots.length) return;
  indicators.compute(candles);
  indicators.fill(candles, given);
}

// The values of the indicators at a candle, see IndicatorSeries.values().
export const indicatorValues = (t) => indicators.values(candles, candles.at(t) ? candles.index(t) : -1);

// -- the price axis ------------------------------------------------------------------------------------------------

// The axes of the candles and of the panes below them.
const axes = () => chart.panes().map((pane, at) => chart.priceScale('right', at));

// Whether no axis has another scale than the one that fits what is visible: the user may drag an axis.
export const isAutoScaled = () => axes().every((each) => each.options().autoScale);

export const autoScale = () => axes().forEach((each) => each.applyOptions({ autoScale: true }));

// The last close in sight has a label where it is not the newest price, which has a label of its own.
function labelLast() {
  const lastValueVisible = !view()?.hasNewest;
  if (lastValueVisible !== series.options().lastValueVisible) series.applyOptions({ lastValueVisible });
}

// Draws a line at the newest price, a decimal, or none for null.
export function setNewestPrice(price) {
  newestPrice = price;
  const options = price !== null && { price: prices.drawn(price), color: colours.accent, lineWidth: 1, lineStyle: LineStyle.Dashed, axisLabelVisible: false, title: '' };
  if (!options && newestLine) newestLine = series.removePriceLine(newestLine) ?? null;
  else if (newestLine) newestLine.applyOptions(options);
  else if (options) newestLine = series.createPriceLine(options);
}

// Where a price is on its axis: {y, text}, and the height and the width of the axis. null if there is none yet.
export function placeOf(price) {
  const y = series.priceToCoordinate(prices.drawn(price));
  return y === null ? null : { y, text: prices.label(prices.drawn(price)), height: chart.panes()[0].getHeight(), width: series.priceScale().width() };
}

// Whether there are candles in the visible times, but none at the visible prices.
export function isOutOfSight() {
  const seen = view();
  if (!seen) return false;
  const rows = candles.rows.slice(candles.index(seen.from), candles.index(seen.to + 1));
  const ends = [0, chart.panes()[0].getHeight()].map((y) => series.coordinateToPrice(y));
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  return rows.length > 0 && !ends.includes(null) && !rows.some((row) => prices.drawn(row.h) >= low && prices.drawn(row.l) <= high);
}

// Reads the colours again. The caller must draw() afterwards.
export function recolour() {
  colours = palette();
  chart.applyOptions({
    layout: { panes: { separatorColor: colours.rule, separatorHoverColor: colours.grid }, background: { type: ColorType.Solid, color: colours.paper }, textColor: colours.soft, fontFamily: colours.sans },
    grid: { vertLines: { color: colours.grid } },
    rightPriceScale: { borderColor: colours.rule },
    timeScale: { borderColor: colours.rule },
    crosshair: { vertLine: { color: colours.soft, labelBackgroundColor: colours.accent }, horzLine: { color: colours.soft, labelBackgroundColor: colours.accent } },
  });
  indicators.recolour(colours);
  colourSeries();
}

function colourSeries() {
  marks.set(colours);
  setNewestPrice(newestPrice);
  series.applyOptions({
    borderVisible: true, priceLineColor: colours.soft, // that of the label
    ...(['line', 'area'].includes(type) && { color: colours.accent, lineColor: colours.accent, topColor: colours.areaTop, bottomColor: colours.areaBottom }),
  });
}

// Paints the gaps of the coverage, [{from, to, isFailed, label}], and the breaks of the time axis. The times are in ms.
export function paintGaps(gaps) {
  if (!candles || !slots.length) return;
  hatching.set(gaps.map((gap) => ({ ...gap, from: gap.from === -Infinity ? -1e7 : positionOf(gap.from), to: positionOf(gap.to) })), colours);
  breaks.set(timeAxis.cuts(slots, width(candles.interval)).map((at) => breakAt(at, gaps)), colours);
}

function breakAt(at, gaps) {
  const [before, after] = [candles.before(slots[at - 1]), candles.rows[candles.index(slots[at])]];
  const from = before ? before.t + width(candles.interval) : slots[0];
  const to = after?.t ?? slots.at(-1);
  const isIndexed = !gaps.some((gap) => gap.from < to && gap.to > from);
  return { at, from: positionOf(from), to: positionOf(to), label: `${timeAxis.inWords(to - from)}${isIndexed ? ' without trades' : ''}` };
}

export const picture = () => chart.takeScreenshot(true);
export const currentColours = () => colours;
