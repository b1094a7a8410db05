// The picture: the chart library with our candles. Its time axis gets local times, shifted by the zone, so that its days
// begin where the zone's do.

import { CandlestickSeries, ColorType, createChart, CrosshairMode, HistogramSeries, LineSeries, PriceLineSource, PriceScaleMode, TickMarkType } from './vendor/lightweight-charts.mjs';
import * as decimals from './decimals.js';
import { $ } from './dom.js';
import { width } from './intervals.js';
import { Corrections, Hatching } from './painting.js';
import { palette } from './palette.js';
import * as slotsOf from './slots.js';
import * as zones from './zones.js';

const RIGHT_MARGIN = 6; // bars
const VOLUME_TOP = 0.84; // of the height

let chart = null;
let series = null;
let volume = null;
let axis = null; // has a point at the last slot: the library's axis ends with the last point of any series
let colours = null;
let candles = null;
let slots = [];
let ahead = null; // the places that will be in sight with the next frame
let newest = null; // the opening time of the newest candle that is drawn; null when there are newer ones
let scale = 0; // places that prices are moved by, see decimals.js
let volumeScale = 0;
let places = 2;
const hatching = new Hatching();
const corrections = new Corrections();

// `onRange` is called when other times come into sight, `onCrosshair` with a time, or null when the pointer has left.
export function start({ onRange, onCrosshair }) {
  colours = palette();
  chart = createChart($('chart'), {
    autoSize: true,
    layout: { attributionLogo: true, fontSize: 12 },
    crosshair: { mode: CrosshairMode.Normal },
    rightPriceScale: { scaleMargins: { top: 0.14, bottom: 1 - VOLUME_TOP + 0.02 }, minimumWidth: 72 },
    timeScale: { rightOffset: RIGHT_MARGIN, shiftVisibleRangeOnNewBar: false, minBarSpacing: 0.02, enableConflation: true, tickMarkFormatter: tickMark, tickMarkMaxCharacterLength: 9 },
    localization: { timeFormatter: timeLabel },
    kineticScroll: { mouse: false, touch: true },
  });
  series = chart.addSeries(CandlestickSeries, { priceFormat: priceFormat(), priceLineSource: PriceLineSource.LastVisible, autoscaleInfoProvider: (found) => found() ?? besides() });
  volume = chart.addSeries(HistogramSeries, { priceScaleId: 'volume', lastValueVisible: false, priceLineVisible: false });
  axis = chart.addSeries(LineSeries, { priceScaleId: 'axis', visible: false, lastValueVisible: false, priceLineVisible: false });
  volume.priceScale().applyOptions({ scaleMargins: { top: VOLUME_TOP, bottom: 0 } });
  series.attachPrimitive(hatching);
  series.attachPrimitive(corrections);
  chart.timeScale().subscribeVisibleLogicalRangeChange((range) => { ahead = null; if (range && candles) onRange(); });
  chart.subscribeCrosshairMove(({ time, point }) => onCrosshair(time === undefined || !point ? null : fromAxis(time)));
  recolour();
}

// -- times and prices ----------------------------------------------------------------------------------------------

const toAxis = (time) => time / 1000 + candles.zone * 60;
const fromAxis = (time) => (time - candles.zone * 60) * 1000;

function tickMark(time, type) {
  const { year, month, day, minute, second } = zones.parts(time * 1000, 0);
  if (type === TickMarkType.Year) return year;
  if (type === TickMarkType.Month) return month;
  if (type === TickMarkType.DayOfMonth) return day;
  return type === TickMarkType.Time ? minute : second;
}

function timeLabel(time) {
  const { weekday, date, minute, second } = zones.parts(time * 1000, 0);
  const length = width(candles.interval);
  if (length >= 86_400_000) return `${weekday} ${date}`;
  return `${weekday} ${date} ${length < 60_000 ? second : minute}`;
}

function priceFormat() {
  return {
    type: 'custom', base: 10 ** places,
    formatter: (number) => decimals.price(number, places, scale),
    // On the axis only as many places as tell the marks apart.
    tickmarksFormatter: (numbers) => {
      const gap = numbers.length > 1 ? Math.min(...numbers.slice(1).map((number, at) => Math.abs(number - numbers[at]))) : 0;
      const needed = gap > 0 ? Math.min(Math.max(Math.ceil(-Math.log10(gap) + 0.05), places > 1 && !scale ? 2 : 0), places) : places;
      return numbers.map((number) => decimals.price(number, needed, scale));
    },
  };
}

// -- data ----------------------------------------------------------------------------------------------------------

const item = (row) => {
  const isUp = decimals.scaled(row.c, scale) >= decimals.scaled(row.o, scale);
  const made = {
    time: toAxis(row.t),
    open: decimals.scaled(row.o, scale), high: decimals.scaled(row.h, scale), low: decimals.scaled(row.l, scale), close: decimals.scaled(row.c, scale),
  };
  if (row.finalized) return made;
  const colour = isUp ? colours.upOpen : colours.downOpen;
  return { ...made, color: colour, borderColor: colour, wickColor: colour };
};

const bar = (row) => {
  const isUp = Number(row.c) >= Number(row.o);
  const colour = row.finalized ? (isUp ? colours.upVolume : colours.downVolume) : (isUp ? colours.upVolumeOpen : colours.downVolumeOpen);
  return { time: toAxis(row.t), value: decimals.scaled(row.v, volumeScale), color: colour };
};

// The prices of a view without candles: those near the last one before it.
function besides() {
  const seen = candles && view();
  const row = seen && (candles.before(seen.to) ?? candles.first);
  if (!row) return null;
  const price = decimals.scaled(row.c, scale);
  return { priceRange: { minValue: price * 0.99, maxValue: price * 1.01 } };
}

// Another view: the prices' format is chosen from its newest candle.
export function open(given) {
  candles = given;
  corrections.clear();
  const { last } = candles;
  scale = last ? decimals.scaleOf(last.c) : 0;
  volumeScale = last ? decimals.scaleOf([...candles.rows].sort((one, other) => Number(other.v) - Number(one.v))[0].v) : 0;
  places = last ? decimals.placesFor(decimals.scaled(last.c, scale)) : 2;
  series.applyOptions({ priceFormat: priceFormat() });
  chart.timeScale().applyOptions({ timeVisible: width(candles.interval) < 86_400_000, secondsVisible: width(candles.interval) < 60_000 });
}

// Draw everything that is known, with the buckets without candles from `from` to `until`.
export function draw(from, until) {
  const before = inSight();
  slots = candles.slots(from, until);
  const known = new Map(candles.rows.map((row) => [row.t, row]));
  const rows = slots.map((t) => known.get(t) ?? null);
  // While the places of the candles change, the library would draw bars that it condensed for the places before, and fail.
  volume.setData([]);
  series.setData(rows.map((row, at) => (row ? item(row) : { time: toAxis(slots[at]) })));
  volume.setData(rows.filter(Boolean).map(bar));
  axis.setData(slots.slice(-1).map(end));
  keep(before);
}

// Draw one changed bucket; false when that needs draw().
export function drawOne({ t, after }) {
  const last = slots.at(-1);
  const isNew = last === undefined || t > last;
  if (isNew) return false;
  if (slots[index(t)] !== t) return false;
  const before = inSight();
  series.update(after ? item(after) : { time: toAxis(t) }, t < last);
  volume.update(after ? bar(after) : { time: toAxis(t) }, t < last);
  keep(before);
  return true;
}

// Add empty buckets up to `open`.
export function extend(opens) {
  for (const t of opens) {
    slots.push(t);
    series.update({ time: toAxis(t) });
    volume.update({ time: toAxis(t) });
    axis.update(end(t));
  }
}

const end = (t) => ({ time: toAxis(t), value: 0 });

// The places in sight, {from, to}: the library takes new ones only with its next frame.
const sight = () => ahead ?? chart.timeScale().getVisibleLogicalRange();

function look(range) {
  chart.timeScale().setVisibleLogicalRange(range);
  ahead = range;
  requestAnimationFrame(() => { ahead = null; });
}

// What is in sight, and a slot by which it is found again when slots are added: that of the newest candle where it is in
// sight, so that the view follows it, else the first in sight.
function inSight() {
  const range = slots.length ? sight() : null;
  if (!range) return null;
  if (isNewestIn(range)) return { range, slot: index(newest), time: null };
  const slot = Math.min(Math.max(Math.round(range.from), 0), slots.length - 1);
  return { range, slot, time: slots[slot] };
}

function keep(before) {
  newest = candles.hasNewer ? null : candles.last?.t ?? null;
  if (!before) return;
  const time = before.time ?? newest;
  const moved = time === null ? 0 : index(time) - before.slot;
  const wanted = { from: before.range.from + moved, to: before.range.to + moved };
  const now = sight();
  if (!now || Math.abs(now.from - wanted.from) > 1e-6) look(wanted);
}

const isNewestIn = ({ from, to }) => newest !== null && index(newest) >= from - 0.5 && index(newest) <= to + 0.5;

export const lastSlot = () => slots.at(-1);

export function forget() {
  slots = [];
  newest = null;
  for (const each of [series, volume, axis]) each.setData([]);
  hatching.set([], colours);
}

export const flash = (times) => corrections.add(times.map(index), colours.current);

const index = (time) => slotsOf.indexOf(slots, time);
const timeAt = (place) => slotsOf.timeAt(slots, width(candles.interval), place);
const placeOf = (time) => slotsOf.placeOf(slots, width(candles.interval), time);

// -- what is in sight ----------------------------------------------------------------------------------------------

// What is in sight: {from, to} in ms, how many bars they are, how many are loaded on the left and right of them, whether
// the newest candle is among them, and whether showNewest() shows the same; null when nothing is.
export function view() {
  const range = sight();
  if (!range || !slots.length) return null;
  const bars = Math.max(Number((range.to - range.from).toFixed(2)), 2);
  return {
    from: Math.round(timeAt(range.from)), to: Math.round(timeAt(range.to)), bars, left: range.from, right: slots.length - 1 - range.to,
    hasNewest: isNewestIn(range), isNewest: newest !== null && Math.abs(range.to - newestRange(bars).to) < 0.02,
  };
}

// `bars` of them with the newest candle at the right, however long ago it was.
function newestRange(bars) {
  const to = (newest === null ? slots.length - 1 : index(newest)) + Math.min(RIGHT_MARGIN, bars / 4);
  return { from: to - bars, to };
}

export const showNewest = (bars) => look(newestRange(bars));

export function show(from, to) {
  look({ from: placeOf(from), to: placeOf(to) });
}

export function scrollBy(bars) {
  const range = sight();
  if (range) look({ from: range.from + bars, to: range.to + bars });
}

export function zoom(factor) {
  const range = sight();
  if (!range) return;
  if (view().isNewest) return showNewest((range.to - range.from) * factor);
  look({ from: range.to - (range.to - range.from) * factor, to: range.to });
}

// Put the crosshair on the candle `step` after that of `time`, or on the last one in sight; its time.
export function moveCrosshair(time, step) {
  if (!candles?.rows.length) return null;
  const { rows } = candles;
  const at = time === null ? candles.index(view().to + 1) - 1 : candles.index(time) + step;
  const row = rows[Math.min(Math.max(at, 0), rows.length - 1)];
  const place = placeOf(row.t);
  const range = sight();
  if (place < range.from + 1) scrollBy(place - range.from - 2);
  if (place > range.to - 1) scrollBy(place - range.to + 2);
  chart.setCrosshairPosition(decimals.scaled(row.c, scale), toAxis(row.t), series);
  return row.t;
}

export const clearCrosshair = () => chart.clearCrosshairPosition();

// -- appearance ----------------------------------------------------------------------------------------------------

export function setLog(isLog) {
  series.priceScale().applyOptions({ mode: isLog ? PriceScaleMode.Logarithmic : PriceScaleMode.Normal });
}

export const autoScale = () => series.priceScale().applyOptions({ autoScale: true });

// Read the colours again; draw() has to follow where candles are shown.
export function recolour() {
  colours = palette();
  chart.applyOptions({
    layout: { background: { type: ColorType.Solid, color: colours.paper }, textColor: colours.soft, fontFamily: colours.sans },
    grid: { vertLines: { color: colours.grid }, horzLines: { color: colours.grid } },
    rightPriceScale: { borderColor: colours.rule },
    timeScale: { borderColor: colours.rule },
    crosshair: { vertLine: { color: colours.soft, labelBackgroundColor: colours.accent }, horzLine: { color: colours.soft, labelBackgroundColor: colours.accent } },
  });
  series.applyOptions({
    upColor: colours.up, downColor: colours.down, borderUpColor: colours.up, borderDownColor: colours.down,
    wickUpColor: colours.up, wickDownColor: colours.down, priceLineColor: colours.accent,
  });
}

// Paint the gaps of the coverage, [{from, to, isFailed, label}] in ms.
export function paintGaps(gaps) {
  if (!candles || !slots.length) return;
  hatching.set(gaps.map((gap) => ({ ...gap, from: gap.from === -Infinity ? -1e7 : placeOf(gap.from), to: placeOf(gap.to) })), colours);
}

export const picture = () => chart.takeScreenshot(true);
export const theColours = () => colours;
