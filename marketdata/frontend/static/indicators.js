// The indicators of the chart: their facts, their values, and how the page's address names them.
//
// The values are numbers, correct to about twelve digits. Where ta-lib has the same indicator, the values are ta-lib's, also
// at the beginning of the rows. A value that is not defined yet is NaN.

import * as decimals from './decimals.js';

const NEGLIGIBLE = 1e-12; // the share of the start value that may be left after the warm-up

const period = (name, value, maximum, minimum = 2) => ({ name, default: value, minimum, maximum });
const line = (name) => ({ name, kind: 'line' });
const histogram = (name) => ({ name, kind: 'histogram' });
const band = (name) => ({ name, kind: 'band' });

// The facts of each indicator by its id, which the address contains. `pane` is 'price' if it is drawn over the candles, 'own'
// if it has a pane of its own. `rule` is a condition on several parameters. `warmUp(parameters)` is the number of rows before
// the first visible one that its values need; more rows would not change them. `fill` computes, see Calculation.
export const INDICATORS = new Map(Object.entries({
  sma: {
    name: 'SMA', pane: 'price', parameters: [period('period', 20, 500)], outputs: [line('sma')],
    warmUp: ([count]) => count - 1, fill: fillSma,
  },
  ema: {
    name: 'EMA', pane: 'price', parameters: [period('period', 20, 500)], outputs: [line('ema')],
    warmUp: ([count]) => count - 1 + rowsToForget(emaShare(count)), fill: fillEma,
  },
  vwap: { name: 'VWAP of the candle', pane: 'price', parameters: [], outputs: [line('vwap')], warmUp: () => 0, fill: fillVwap },
  bb: {
    name: 'Bollinger', pane: 'price', parameters: [period('period', 20, 500), { name: 'deviations', default: 2, minimum: 1, maximum: 10 }],
    outputs: [band('upper'), line('middle'), band('lower')], warmUp: ([count]) => count - 1, fill: fillBollinger,
  },
  rsi: {
    name: 'RSI', pane: 'own', parameters: [period('period', 14, 200)], outputs: [line('rsi')],
    warmUp: ([count]) => count + rowsToForget(1 / count), fill: fillRsi,
  },
  macd: {
    name: 'MACD', pane: 'own', parameters: [period('fast', 12, 200), period('slow', 26, 200), period('signal', 9, 100, 1)],
    rule: { says: 'fast below slow', holds: ([fast, slow]) => fast < slow },
    outputs: [line('macd'), line('signal'), histogram('histogram')],
    warmUp: ([, slow, signal]) => slow + signal - 2 + rowsToForget(emaShare(slow)) + rowsToForget(emaShare(signal)), fill: fillMacd,
  },
  sides: { name: 'Volume by side', pane: 'own', parameters: [], outputs: [histogram('buy'), histogram('sell')], warmUp: () => 0, fill: fillSides },
}));

// The name with the parameters, like `SMA 20`.
export const label = ({ id, parameters }) => [INDICATORS.get(id).name, ...parameters].join(' ');

// How many rows before the first visible one the values of all `chosen` indicators need.
export const warmUp = (chosen) => Math.max(0, ...chosen.map(({ id, parameters }) => INDICATORS.get(id).warmUp(parameters)));

// -- in the address ----------------------------------------------------------------------------------------------------

// The indicators that a text like `sma.20,macd.12.26.9,vwap` names, as {id, parameters}. A missing parameter has its default.
// `faults` contains a sentence for each invalid part.
export function read(text) {
  const found = new Map();
  const faults = [];
  for (const part of text.split(',').filter(Boolean)) {
    const [id, ...given] = part.split('.');
    const indicator = INDICATORS.get(id);
    if (!indicator) faults.push(`There is no indicator “${id}”. There are ${[...INDICATORS.keys()].join(', ')}.`);
    else if (isValid(indicator, given)) {
      const one = { id, parameters: completed(indicator, given) };
      found.set(written([one]), one);
    } else faults.push(`“${part}” is not valid. ${inWords(id, indicator)}`);
  }
  return { chosen: [...found.values()], faults };
}

export const written = (chosen) => chosen.map(({ id, parameters }) => [id, ...parameters].join('.')).join(',');

const completed = ({ parameters }, given) => parameters.map((each, at) => Number(given[at] ?? each.default));

function isValid(indicator, given) {
  const { parameters, rule } = indicator;
  const numbers = completed(indicator, given);
  return given.length <= parameters.length && given.every((text) => /^\d+$/.test(text))
    && parameters.every(({ minimum, maximum }, at) => numbers[at] >= minimum && numbers[at] <= maximum)
    && (rule?.holds(numbers) ?? true);
}

function inWords(id, { name, parameters, rule }) {
  if (!parameters.length) return `${name} has no parameters.`;
  const example = written([{ id, parameters: parameters.map((each) => each.default) }]);
  const ranges = parameters.map((each) => `${each.name} from ${each.minimum} to ${each.maximum}`).join(', ');
  return `${name} is written like ${example}: ${ranges}${rule ? `, ${rule.says}` : ''}.`;
}

// -- values ------------------------------------------------------------------------------------------------------------

// The values of the chosen indicators. `results` has {id, parameters, values} for each of them. `values` has an array for each
// output, with a value for each row, and further arrays that the next computation needs.
export class Calculation {
  constructor(chosen) {
    this.closes = [];
    this.results = chosen.map((one) => ({ ...one, values: {} }));
  }

  // Computes the values of rows[from] and all later rows. The rows before it must be those of the last computation. The values
  // are exactly those of a computation of all rows.
  compute(rows, from = 0) {
    const start = Math.min(from, this.closes.length);
    this.closes.length = start;
    for (let at = start; at < rows.length; at += 1) this.closes[at] = Number(rows[at].c);
    for (const { id, parameters, values } of this.results) {
      for (const array of Object.values(values)) array.length = start;
      const output = (name) => { values[name] ??= []; return values[name]; };
      INDICATORS.get(id).fill({ rows, closes: this.closes, from: start }, parameters, output);
    }
  }
}

function fillVwap({ rows, from }, parameters, output) {
  const vwap = output('vwap');
  for (let at = from; at < rows.length; at += 1) vwap[at] = Number(rows[at].vwap ?? NaN);
}

function fillSides({ rows, from }, parameters, output) {
  const [buy, sell] = [output('buy'), output('sell')];
  for (let at = from; at < rows.length; at += 1) {
    const { v, bv } = rows[at];
    buy[at] = Number(bv ?? NaN);
    const difference = Number(v) - buy[at];
    // The difference of two almost equal numbers has few correct digits, so it is then computed from the decimals.
    sell[at] = v !== bv && difference < buy[at] * 1e-6 ? Number(decimals.minus(v, bv)) : difference;
  }
}

function fillSma({ closes, from }, [count], output) {
  const sma = output('sma');
  eachWindow(closes, count, from, (at, mean) => { sma[at] = mean; });
}

function fillBollinger({ closes, from }, [count, deviations], output) {
  const [upper, middle, lower] = [output('upper'), output('middle'), output('lower')];
  eachWindow(closes, count, from, (at, mean, variance) => {
    const distance = deviations * Math.sqrt(variance);
    upper[at] = mean + distance;
    middle[at] = mean;
    lower[at] = mean - distance;
  });
}

// Calls each(at, mean, variance) for each window of `count` values that ends at `from` or later, and for some windows before.
// Until the first full window, mean and variance are NaN. The values are divided into blocks of `count`, so that each window
// is the end of one block and the beginning of the next one. So the time does not depend on `count`, and nothing is
// subtracted from a sum, which would lose the digits of values that are much smaller than those that left the window.
function eachWindow(values, count, from, each) {
  const ends = { sums: new Float64Array(count), squares: new Float64Array(count) };
  for (let first = from - (from % count); first < values.length; first += count) {
    if (first) fillEnds(values, first, count, ends);
    let [sum, squares] = [0, 0];
    for (let at = first; at < Math.min(first + count, values.length); at += 1) {
      const known = at - first;
      squares += joined(known, sum, 1, values[at]);
      sum += values[at];
      const missing = count - known - 1; // these are at the end of the block before
      if (at < count - 1) each(at, NaN, NaN);
      else each(at, (sum + ends.sums[missing]) / count, (squares + ends.squares[missing] + joined(known + 1, sum, missing, ends.sums[missing])) / count);
    }
  }
}

// For the last 0, 1, 2… values before `first`: their sum, and the sum of the squares of their distances from their mean.
function fillEnds(values, first, count, { sums, squares }) {
  for (let size = 1; size < count; size += 1) {
    const value = values[first - size];
    squares[size] = squares[size - 1] + joined(size - 1, sums[size - 1], 1, value);
    sums[size] = sums[size - 1] + value;
  }
}

// A whole consists of two parts with these sizes and sums. Returns the whole's sum of the squares of the distances from
// the mean, minus the sums of the two parts.
function joined(size, sum, otherSize, otherSum) {
  if (!size || !otherSize) return 0;
  const distance = sum / size - otherSum / otherSize;
  return (distance * distance * size * otherSize) / (size + otherSize);
}

const emaShare = (count) => 2 / (count + 1);

// After how many rows the start value of an average is negligible, if each row replaces `share` of the average.
const rowsToForget = (share) => Math.ceil(Math.log(NEGLIGIBLE) / Math.log(1 - share));

function fillEma({ closes, from }, [count], output) {
  smooth(closes, count, count - 1, from, output('ema'));
}

// An exponential average. Its start value, at index `first`, is the mean of the `count` values up to there.
function smooth(values, count, first, from, average) {
  const share = emaShare(count);
  for (let at = from; at < values.length; at += 1) {
    if (at > first) average[at] = average[at - 1] + share * (values[at] - average[at - 1]);
    else average[at] = at === first ? mean(values, first - count + 1, first + 1) : NaN;
  }
}

function mean(values, from, until) {
  let sum = 0;
  for (let at = from; at < until; at += 1) sum += values[at];
  return sum / (until - from);
}

// As in ta-lib, both averages start at the same row, and nothing is shown before the signal is defined.
function fillMacd({ closes, from }, [fastCount, slowCount, signalCount], output) {
  const [fast, slow, difference] = [output('fast'), output('slow'), output('difference')];
  smooth(closes, fastCount, slowCount - 1, from, fast);
  smooth(closes, slowCount, slowCount - 1, from, slow);
  for (let at = from; at < closes.length; at += 1) difference[at] = fast[at] - slow[at];
  const [macd, signal, distance] = [output('macd'), output('signal'), output('histogram')];
  const first = slowCount + signalCount - 2;
  smooth(difference, signalCount, first, from, signal);
  for (let at = from; at < closes.length; at += 1) {
    macd[at] = at < first ? NaN : difference[at];
    distance[at] = difference[at] - signal[at];
  }
}

// Wilder's averages of the rises and of the falls: the mean of the first `count` changes, of which each further change
// then replaces one part in `count`. As in ta-lib, the RSI of prices that never changed is 0.
function fillRsi({ closes, from }, [count], output) {
  const [rises, falls, rsi] = [output('rises'), output('falls'), output('rsi')];
  let [rise, fall] = from ? [rises[from - 1], falls[from - 1]] : [0, 0];
  for (let at = from; at < closes.length; at += 1) {
    const change = at ? closes[at] - closes[at - 1] : 0;
    const size = Math.max(Math.min(at, count), 1);
    rises[at] = rise = (rise * (size - 1) + Math.max(change, 0)) / size;
    falls[at] = fall = (fall * (size - 1) + Math.max(-change, 0)) / size;
    rsi[at] = at < count ? NaN : (100 * rise) / (rise + fall || 1);
  }
}
