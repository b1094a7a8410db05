// Shows the candle under the crosshair with all digits of the API. Without a crosshair, shows the last visible candle.

import * as chart from './chart.js';
import * as coverage from './coverage.js';
import * as decimals from './decimals.js';
import { $, element } from './dom.js';
import * as feed from './feed.js';
import { INDICATORS, label } from './indicators.js';
import { bucketOpen, nextOpen, width } from './intervals.js';
import { direction } from './series.js';
import * as zones from './time_zones.js';

const NARROW = 3; // pixels; a bar below this is hard to point at
const REACH = 8; // pixels from the pointer to a narrow bar

let pointed = null; // the time under the crosshair, or null
let isAnnounced = false; // whether drawing announces the candle to a screen reader

// The time of the candle under the crosshair, or that of the crosshair, or null.
export const time = () => (pointed === null ? null : pointedRow(feed.candles())?.t ?? pointed);

export function point(at, { announce = false } = {}) {
  pointed = at;
  isAnnounced = announce;
  draw();
}

export function draw() {
  const known = feed.candles();
  const row = known && (pointed === null ? lastVisible(known) : pointedRow(known));
  if (known) noteInterval(known.interval, feed.coarser());
  $('legend').hidden = !known || (!row && pointed === null);
  if ($('legend').hidden) return;
  $('legend-time').textContent = moment(row?.t ?? pointed, known);
  if (!row) {
    $('legend-values').replaceChildren(element('span', { class: 'quiet' }, coverage.missing(pointed, nextOpen(pointed, known.interval, known.zone)) ?? 'no trades'));
    $('legend').className = '';
    return;
  }
  const drawn = chart.drawnAt(row.t);
  const rise = direction(drawn);
  $('legend').className = rise > 0 ? 'up' : rise < 0 ? 'down' : '';
  const amounts = ['o', 'h', 'l', 'c', 'v'].map((name) => amount(name.toUpperCase(), drawn[name]));
  // A connected candle does not show the price of its first trade.
  if (drawn.o !== row.o) amounts.splice(1, 0, amount('first', row.o));
  $('legend-values').replaceChildren(...amounts, count(row.n), ...chart.indicatorValues(row.t).map((each) => indicator(each, row)),
    element('span', { class: 'change' }, decimals.change(drawn.o, row.c)), element('span', { class: 'finality' }, finality(row)),
    feed.isCorrected(row.t) ? element('span', { class: 'corrected', title: 'A correction or a reorganisation changed it while this page was open.' }, 'corrected') : '');
  if (isAnnounced) $('spoken').textContent = `${moment(row.t, known)}, open ${drawn.o}, high ${drawn.h}, low ${drawn.l}, close ${row.c}, volume ${row.v}, ${row.n} trades, ${finality(row)}`;
}

// Says which interval is drawn if it is not the chosen one.
function noteInterval(drawn, coarser) {
  const text = coarser ? `${coarser.drawn} candles (${coarser.chosen} chosen)` : '';
  if ($('coarser').textContent === text) return;
  $('coarser').textContent = text;
  $('spoken').textContent = text || `${drawn} candles`;
}

export function lastVisible(known) {
  const view = chart.view();
  if (!view) return known.last;
  const row = known.before(view.to);
  return row && row.t > view.from - width(known.interval) ? row : null;
}

// The candle under the crosshair, or null. Among narrow bars it is the nearest one within REACH.
function pointedRow(known) {
  const open = bucketOpen(pointed, known.interval, known.zone);
  const row = known.at(open);
  if (row || chart.pixelsBetween(open, nextOpen(open, known.interval, known.zone)) >= NARROW) return row;
  const at = known.index(open);
  const distance = ({ t }) => chart.pixelsBetween(t, open);
  const beside = [known.rows[at - 1], known.rows[at]].filter((each) => each && distance(each) <= REACH);
  return beside.sort((one, other) => distance(one) - distance(other))[0] ?? null;
}

const finality = (row) => (row.finalized ? 'final' : row.closed ? 'not final yet' : 'forming');

const amount = (name, decimal) => element('span', { class: 'amount' }, element('b', {}, name), digits(decimal));

// Every digit of a decimal. Those after the first significant ones are small.
function digits(decimal) {
  const [head, tail] = decimals.split(decimal);
  return element('span', { class: 'digits', title: tail ? decimal : null }, head, tail && element('span', { class: 'tail' }, tail));
}

// `SMA 20 2503.2`, or `buy 3 sell 4`: the outputs of Volume by side have their names. A value that is not known is a dash. VWAP
// is the API's, with every digit.
function indicator({ id, parameters, values }, { vwap }) {
  if (id === 'vwap' && vwap) return element('span', { class: 'indicator' }, element('b', {}, INDICATORS.get(id).name), ' ', digits(vwap), ' ');
  const texts = values.map((value) => (Number.isFinite(value) ? decimals.text(value, decimals.placesFor(value)) : '–'));
  const names = id === 'sides' ? INDICATORS.get(id).outputs.map(({ name }) => name) : [label({ id, parameters })];
  return element('span', { class: 'indicator' }, ...texts.flatMap((text, at) => [at < names.length && element('b', {}, names[at]), ` ${text} `].filter(Boolean)));
}

const count = (number) => element('span', { class: 'amount' }, element('b', {}, 'n'), element('span', { class: 'digits' }, String(number)));

// The opening time of a candle.
export function moment(at, { interval, zone }) {
  const { weekday, date, minute, second } = zones.parts(at, zone);
  const length = width(interval);
  if (length >= 86_400_000) return `${weekday} ${date}`;
  return `${date} ${length < 60_000 ? second : minute}`;
}
