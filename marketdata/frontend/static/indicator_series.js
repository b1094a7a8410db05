// Draws the chosen indicators: lines over the candles, and panes of their own below them. indicators.js computes the values.

import { HistogramSeries, LineSeries, LineStyle } from './vendor/lightweight-charts.mjs';
import { AxisMarks } from './axis_marks.js';
import { Calculation, INDICATORS } from './indicators.js';
import { PriceScale } from './price_scale.js';

const PRICE_HEIGHT = 3; // the height of the pane with the candles, if that of another pane is 1
const MAX_UPDATES = 50; // if more rows change at once, all are given to the library
const COLOURS = ['line1', 'line2', 'line3', 'line4'];
const DASHES = [LineStyle.Solid, LineStyle.Dashed, LineStyle.LargeDashed, LineStyle.Dotted];
const GUIDES = { rsi: [30, 70] }; // values with a line across the pane
const LIMITS = { rsi: [0, 100] }; // the range of a pane that does not follow its values

export class IndicatorSeries {
  // `prices` is the PriceScale of the candles.
  constructor(chart, prices) {
    this.chart = chart;
    this.prices = prices;
    this.calculation = new Calculation([]);
    this.drawn = []; // {series, scale, output, values, facts, …}, one for each series of the library
    this.marks = []; // of the panes below
    this.given = null; // the library has the rows with from <= t < to
    this.last = -Infinity; // the time of the last of them
  }

  // Replaces the indicators. The caller must compute() and fill() afterwards.
  choose(chosen, colours) {
    for (const { series } of this.drawn) this.chart.removeSeries(series);
    this.calculation = new Calculation(chosen);
    this.marks = [];
    this.drawn = this.calculation.results.flatMap((result, order) => this.#add(result, order));
    this.chart.panes().forEach((pane, at) => pane.setStretchFactor(at ? 1 : PRICE_HEIGHT));
    this.recolour(colours);
  }

  #add({ id, parameters, values }, order) {
    const facts = INDICATORS.get(id);
    const isOwn = facts.pane === 'own';
    const scale = isOwn ? new PriceScale({ isMirrored: id === 'sides' }) : this.prices; // sold volume is drawn downwards
    const pane = isOwn ? this.chart.panes().length : 0;
    const drawn = facts.outputs.map((output, at) => {
      const options = { priceFormat: scale.format, priceLineVisible: false, lastValueVisible: isOwn && !at, crosshairMarkerVisible: false, title: isOwn && !at ? facts.name : '' };
      if (isOwn) options.autoscaleInfoProvider = (found) => paneRange(scale, LIMITS[id], found);
      const series = this.chart.addSeries(output.kind === 'histogram' ? HistogramSeries : LineSeries, options, pane);
      return { series, scale, output, values, id, order: isOwn ? at : order, hidden: facts.warmUp(parameters) };
    });
    if (isOwn) {
      const marks = new AxisMarks(scale);
      this.marks.push(marks);
      drawn[0].series.attachPrimitive(marks);
      drawn[0].series.priceScale().applyOptions({ scaleMargins: { top: 0.12, bottom: 0.08 } });
    }
    return drawn;
  }

  recolour(colours) {
    this.colours = colours;
    for (const marks of this.marks) marks.set(colours);
    for (const { series, output, id, order } of this.drawn) {
      const colour = colours[COLOURS[order % COLOURS.length]];
      const lineStyle = output.kind === 'band' ? LineStyle.Dotted : DASHES[order % DASHES.length];
      series.applyOptions({ color: colour, lineStyle, lineWidth: output.kind === 'band' ? 1 : 2 });
      for (const line of series.priceLines()) series.removePriceLine(line);
      if (output.kind === 'line') for (const price of GUIDES[id] ?? []) series.createPriceLine({ price, color: colours.rule, lineWidth: 1, lineStyle: LineStyle.Dashed, axisLabelVisible: false, title: '' });
    }
  }

  // Computes the values of all rows, or only those of the row at a time and of later rows.
  compute(candles, t = -Infinity) {
    if (this.drawn.length) this.calculation.compute(candles.rows, candles.index(t));
  }

  // Draws the rows with from <= t < to.
  fill(candles, given) {
    this.given = given;
    const [from, to] = [candles.index(given.from), candles.index(given.to)];
    this.last = candles.rows[to - 1]?.t ?? -Infinity;
    const rows = candles.rows.slice(from, to);
    for (const each of this.drawn) each.series.setData(rows.map((row, at) => this.#point(each, candles, from + at)));
  }

  // Draws the computed values of a changed row and of later rows. `t` is the row's time; the row may be missing now.
  update(candles, t) {
    const [from, to] = [candles.index(t), candles.index(this.given.to)];
    if (to - from > MAX_UPDATES) return this.fill(candles, this.given);
    for (const each of this.drawn) {
      if (candles.rows[from]?.t !== t) each.series.update({ time: t / 1000 }, t < this.last);
      for (let at = from; at < to; at += 1) each.series.update(this.#point(each, candles, at), candles.rows[at].t < this.last);
    }
    this.last = Math.max(this.last, t);
  }

  clear() {
    for (const { series } of this.drawn) series.setData([]);
  }

  // What the library draws for a row. While older rows are missing, the first values are not drawn, because they would move.
  #point({ scale, output, values, hidden }, candles, at) {
    const time = candles.rows[at].t / 1000;
    const number = output.name === 'sell' ? -values.sell[at] : values[output.name][at];
    const value = candles.hasOlder && at < hidden ? NaN : scale.drawn(number);
    if (!Number.isFinite(value)) return { time };
    return output.kind === 'histogram' ? { time, value, color: this.#barColour(output, value) } : { time, value };
  }

  #barColour({ name }, value) {
    const isUp = name === 'buy' || (name !== 'sell' && value >= 0);
    return isUp ? this.colours.upVolume : this.colours.downVolume;
  }

  // The values of candles.rows[at], as [{id, parameters, values}]. `values` has a number for each output, or NaN.
  values(candles, at) {
    return this.calculation.results.map(({ id, parameters, values }) => {
      const { outputs, warmUp } = INDICATORS.get(id);
      const isKnown = at >= 0 && !(candles.hasOlder && at < warmUp(parameters));
      return { id, parameters, values: outputs.map(({ name }) => (isKnown ? values[name]?.[at] ?? NaN : NaN)) };
    });
  }
}

// The drawn range of a pane, for the library's autoscaleInfoProvider.
function paneRange(scale, limits, found) {
  const range = found()?.priceRange;
  if (!limits && !range) return null;
  const [minValue, maxValue] = limits ?? scale.widened(range.minValue, range.maxValue);
  return { priceRange: { minValue, maxValue } };
}
