// Loads the candles of the view, loads further candles before they become visible, and applies live candles.

import * as api from './api.js';
import { Candles, overlaid } from './candles.js';
import * as chart from './chart.js';
import { firstView, MAX_READ } from './first_view.js';
import { drawnRange, forRange, wanted } from './drawn_interval.js';
import { $, say } from './dom.js';
import { warmUp } from './indicators.js';
import { bucketOpen, MAX_TIME, nextOpen, width } from './intervals.js';
import * as live from './live.js';
import { now, state, update } from './state.js';

const PAGE = 1000; // a read of further candles requests at least this many
const MAX_CANDLES = 50_000; // loaded candles
const MAX_CORRECTIONS = 1000; // kept ones of a symbol, interval and zone
const LEAD = 160; // empty buckets that are drawn before the very first candle
const MAX_SINGLE_CHANGES = 20; // if more candles change in one frame, the whole chart is drawn
export const QUIET_MS = 200; // a shorter wait for a view changes nothing on the page

// The shown view: {symbol, chosen, candles, range, abort, busy, corrections, …}. `chosen` is the interval that the user has
// chosen; candles.interval is the drawn one, and `refused` one that the API does not give. `reads` contains a Map for each running request, with
// the live candles that arrived during the request. `tag` is the entity tag of the first response. `isStale` is true if
// candles may have changed without a message.
let shown = null;
let asked = null; // the view that was requested last; it becomes `shown` when it is loaded
const listeners = [];
export const onCandles = (listener) => listeners.push(listener);
const tell = () => listeners.forEach((listener) => listener());

export const candles = () => shown?.candles ?? null;
// The symbol of these candles. state.symbol may be the next one already.
export const symbol = () => shown?.symbol ?? null;

// The number of bars of the chosen interval in the place of `bars` drawn ones.
const chosenBars = (bars) => Number((bars * width(shown.candles.interval) / width(shown.chosen)).toFixed(2));

// {drawn, chosen} if a coarser interval than the chosen one is drawn, otherwise null.
export const coarser = () => (shown && shown.candles.interval !== shown.chosen ? { drawn: shown.candles.interval, chosen: shown.chosen } : null);

export const isComplete = () => shown !== null && shown === asked;
// Whether the symbol has no candle at any time.
export const isEmpty = () => shown !== null && !shown.candles.last && !shown.candles.hasOlder && !shown.candles.hasNewer;

// The line below which the ticks of these candles were removed, if the candles end there; otherwise null.
export const line = () => (shown?.line && !shown.candles.hasOlder ? shown.line : null);

export const isCorrected = (t) => shown.corrections.some((each) => each.t === t);

// The corrections that this page has found, oldest first: [{t, before, after, at}]. `after` is null for a removed candle. They
// are kept for each symbol, interval and zone.
export const corrections = () => shown?.corrections ?? [];

// A view before its candles are loaded.
const begun = ({ symbol, chosen, zone, interval, range, abort }) => ({
  symbol, chosen, candles: new Candles(interval, zone), range, abort, busy: {}, corrections: [], reads: new Set(), line: null, tag: null, isStale: false, extended: 0,
});

// Opens a view of state.symbol, state.interval and state.zone. It shows the times from `from` to `to`. If these are null, it
// shows the newest `bars`, or as many as fit if `bars` is null. If the range has no candle and `mayBeEmpty` is false, it shows
// the newest candles. `bars` counts bars of state.interval. Returns the shown range {bars, from, to}, or null after a failure;
// state.failure is then the reason.
export async function open(range, { mayBeEmpty = true } = {}) {
  asked?.abort.abort();
  const interval = forRange(range, state.interval, pixels());
  const mine = begun({ symbol: state.symbol, chosen: state.interval, zone: state.zone, interval, range, abort: new AbortController() });
  asked = mine;
  update({ loading: true, failure: null });
  const leaving = setTimeout(() => { if (asked === mine) leave(mine.symbol); }, QUIET_MS);
  try {
    const onFailure = (failure) => { if (asked === mine) fail(failure); };
    const isLoaded = await load(mine, { mayBeEmpty, onFailure, isWanted: () => asked === mine });
    if (!isLoaded) return null;
    update({ loading: true, failure: null });
    show(mine, { keepsPrices: false });
    update({ loading: false, symbol: mine.symbol });
    tell();
    return mine.range;
  } catch (failure) {
    if (asked === mine && failure.name !== 'AbortError') fail(failure);
    return null;
  } finally {
    clearTimeout(leaving);
  }
}

// Takes the candles of another symbol than this one off the page: they must not stand under its name.
function leave(symbol) {
  if (!shown || shown.symbol === symbol) return;
  shown.abort.abort();
  chart.clear();
  shown = null;
  tell();
}

// Loads the first candles of a view. Returns false if `isWanted()` is false then.
async function load(mine, { mayBeEmpty, isWanted, onFailure }) {
  const { candles: { interval }, chosen, range } = mine;
  const ratio = width(interval) / width(chosen);
  const { rows, hasOlder, hasNewer, range: found, ...first } = await firstView((query) => read(mine, query, { onFailure }), drawnRange(range, chosen, interval), interval, mayBeEmpty);
  if (!isWanted()) return false;
  Object.assign(mine, first); // the requested name may be an alias; live messages have the symbol
  Object.assign(mine.candles, { rows, hasOlder, hasNewer });
  mine.range = { ...found, bars: found.bars && found.bars * ratio };
  return true;
}

// Draws a loaded view in place of the view before.
function show(mine, { keepsPrices }) {
  const { candles: { interval }, range: { bars, from, to }, chosen } = mine;
  const finerBars = width(interval) / width(chosen);
  chart.clear(); // moves the crosshair, which still belongs to the view before
  shown = mine;
  mine.corrections = correctionsOf(mine);
  waiting = new Map();
  chart.open(mine.candles, { finerBars, keepsPrices });
  draw();
  if (from === null) chart.showNewest(bars / finerBars);
  else chart.show(from, to);
  live.follow(subscriptions(), true);
  if (mine.candles.hasNewer) revalidate(); // nothing confirms a subscription then
}

const kept = new Map(); // the corrections of each symbol, interval and zone

function correctionsOf({ symbol, candles: { interval, zone } }) {
  const key = `${interval} ${zone} ${symbol}`;
  if (!kept.has(key)) kept.set(key, []);
  return kept.get(key);
}

// Returns {content, tag} of api.request(), and in `during` the live candles that arrived during the request, by t.
async function read(mine, query, options = {}) {
  const { symbol, candles: { interval, zone } } = mine;
  const send = (given) => api.request(api.chartPath({ symbol, interval, timeZone: zone, ...given }), { signal: mine.abort.signal, ...options });
  const during = new Map();
  mine.reads.add(during);
  try {
    const found = await send(query).catch((failure) => api.above(mine, query, send, failure));
    return { ...found ?? { content: { symbol, candles: [], more: false }, tag: null }, during };
  } finally {
    mine.reads.delete(during);
  }
}

export function fail(failure) {
  if (asked) leave(asked.symbol);
  if (failure instanceof api.LoggedOut) update({ loading: false, loggedOut: true });
  else update({ loading: false, failure });
}

const subscriptions = () => {
  const { interval, zone, hasNewer, last } = shown.candles;
  const ticks = { symbol: shown.symbol, interval: 'ticks' };
  // Without candles there is no `since`. While newer candles are not loaded, live candles cannot be appended. So the page then
  // does not subscribe to candles.
  const following = { symbol: shown.symbol, interval, timeZone: zone, ...(last && { since: last.t }) };
  return hasNewer ? [ticks] : [following, ticks];
};

function draw() {
  const { candles: { interval, zone, hasNewer, hasOlder, first, last }, range } = shown;
  // The axis ends now, or at the end of a range in the future.
  const until = hasNewer ? last?.t ?? range.to : bucketOpen(Math.max(now(), range.to ?? 0), interval, zone);
  // The axis begins before the symbol's first candle.
  const start = first && !hasOlder ? Math.max(Math.min(first.t - LEAD * width(interval), range.from ?? Infinity), 0) : first?.t ?? range.from;
  chart.draw(start ?? until - LEAD * width(interval), until);
}

export function redraw() {
  if (shown && !state.loading) draw();
}

// -- older and newer candles -------------------------------------------------------------------------------------------

// How many candles can be loaded outside the view. One read loads at most half of this number, and a quarter of it is kept on
// each side. So reading on one side does not drop candles that the other side must then read again.
const spare = (view) => Math.max(MAX_CANDLES - view.bars, 0);

// Called when the visible times change. Reads candles before they become visible, and changes the drawn interval.
export function prefetch(view) {
  if (!shown || state.loading) return;
  const interval = wantedInterval(view);
  if (interval !== shown.candles.interval && interval !== shown.refused) changeInterval(view, interval);
  const { rows, hasOlder, hasNewer } = shown.candles;
  if (rows.length >= MAX_CANDLES && !spare(view)) return; // the view alone fills the limit
  const ahead = Math.min(Math.max(view.bars * 1.5, 300), spare(view) / 4);
  const warm = warmUp(state.indicators);
  // Slots without a candle do not count for the indicators.
  if (hasOlder && (view.left < ahead + warm || shown.candles.index(view.from) < warm)) more('older', view);
  if (view.right < ahead && hasNewer) more('newer', view);
}

async function more(side, view) {
  const mine = shown;
  if (mine.busy[side] || !mine.candles.last) return;
  mine.busy[side] = true;
  try {
    const known = mine.candles;
    // The more candles are loaded, the more are added at once, because each addition redraws everything.
    const missing = Math.max(-(side === 'older' ? view.left : view.right), 0);
    const wanted = Math.min(Math.max(PAGE, view.bars * 3, known.rows.length / 2), missing + spare(view) / 2, MAX_READ);
    const limit = Math.max(Math.round(wanted), 1);
    const edge = () => (side === 'older' ? known.first?.t : known.last?.t);
    const before = edge();
    const { content, during } = await read(mine, side === 'older' ? { endTime: before - 1, limit } : { startTime: before + 1, limit });
    // If the edge has moved during the request, the response does not adjoin the loaded candles.
    if (mine !== shown || edge() !== before) return;
    if (side === 'older') takeOlder(known, content, during);
    else takeNewer(known, content, during);
    draw();
    tell();
    if (!known.hasNewer) live.follow(subscriptions());
  } catch (failure) {
    if (failure instanceof api.LoggedOut) fail(failure);
  } finally {
    mine.busy[side] = false;
    const next = mine === shown && chart.view();
    if (next && next.left !== view.left) prefetch(next);
  }
}

function takeOlder(known, { candles: rows, more: isMore }, during) {
  known.prepend(overlaid(rows, during, isMore ? rows[0].t : -Infinity, known.first.t - 1));
  known.hasOlder = isMore;
  known.trim(MAX_CANDLES, 'newest');
  if (known.hasNewer) live.follow(subscriptions());
}

function takeNewer(known, { candles: rows, more: isMore }, during) {
  known.append(overlaid(rows, during, known.last.t + 1, isMore ? rows.at(-1).t : Infinity));
  known.hasNewer = isMore;
  known.trim(MAX_CANDLES, 'oldest');
}

// -- the drawn interval ------------------------------------------------------------------------------------------------

// The width of the chart, read once for each size: a read in each frame would make the browser lay out the page.
let chartWidth = 0;
const pixels = () => (chartWidth ||= $('chart').clientWidth);
new ResizeObserver(() => { chartWidth = 0; }).observe($('chart'));

function wantedInterval({ bars, from, to }) {
  const { candles: known, chosen } = shown;
  return wanted({ chosen, drawn: known.interval, bars }, (interval) => known.barsOf(interval, from, to), pixels());
}

// Draws the view in the interval that is wanted for its number of bars. Until the candles are loaded, the picture stays.
async function changeInterval(view, interval) {
  const before = shown;
  if (before.busy.interval) return;
  before.busy.interval = true;
  try {
    const mine = begun({ ...before, zone: before.candles.zone, interval, range: rangeOf(view) });
    const isWanted = () => shown === before && wantedInterval(chart.view()) === interval;
    if (await load(mine, { mayBeEmpty: true, isWanted })) {
      before.abort.abort(); // its requests
      mine.abort = new AbortController();
      mine.range = rangeOf(chart.view());
      if (asked === before) asked = mine;
      show(mine, { keepsPrices: true });
      tell();
    }
    before.busy.interval = false;
    if (shown === mine || shown === before) prefetch(chart.view());
  } catch (failure) {
    before.busy.interval = false;
    if (failure instanceof api.LoggedOut) fail(failure);
    if (!(failure instanceof api.Refusal)) return;
    before.refused = interval; // it would be refused again at each movement
    say(`Candles of ${interval} cannot be read: ${failure.message}`);
  }
}

// The range of a view, as it stands in the address.
export const rangeOf = ({ isNewest, bars, from, to }) => (isNewest ? { bars: chosenBars(bars), from: null, to: null } : { bars: chosenBars(bars), from: Math.max(from, 0), to: Math.min(to, MAX_TIME) });

// -- live --------------------------------------------------------------------------------------------------------------

let waiting = new Map(); // the newest state of each changed candle, by t

// Handles a WebSocket message about candles. All candles that arrive before the next frame are drawn together.
export function take(message) {
  if (!shown || message.symbol !== shown.symbol || message.interval !== shown.candles.interval) return;
  if ((message.timeZone ?? 'UTC') !== shown.candles.zone) return;
  // The server has not sent the changes between the read and the subscription.
  if (message.type === 'subscribed' || message.code === 'missed') revalidate();
  if (message.type !== 'candle') return;
  for (const during of shown.reads) during.set(message.candle.t, message.candle);
  if (!waiting.size) requestFrame();
  waiting.set(message.candle.t, message.candle);
}

// A hidden tab has no frames, but its candles must still be applied.
const requestFrame = () => (document.hidden ? setTimeout(takeWaiting, 200) : requestAnimationFrame(takeWaiting));

function takeWaiting() {
  if (!shown) return;
  const rows = [...waiting.values()].sort((one, other) => one.t - other.t);
  waiting = new Map();
  const known = shown.candles;
  const first = known.first?.t ?? Infinity;
  apply(rows.filter(({ t }) => t >= first || !known.hasOlder).filter(({ t }) => !known.hasNewer || t <= known.last.t).map((row) => known.put(row)).filter(Boolean));
}

function apply(changes) {
  if (!changes.length) return;
  const isFull = shown.candles.rows.length > MAX_CANDLES + PAGE;
  if (isFull) shown.candles.trim(MAX_CANDLES, 'oldest');
  if (isFull || changes.length > MAX_SINGLE_CHANGES || !changes.every((change) => chart.drawOne(change))) draw();
  const corrected = changes.filter((change) => change.isCorrection);
  shown.corrections.push(...corrected.map(({ t, before, after }) => ({ t, before, after, at: now() })));
  shown.corrections.splice(0, shown.corrections.length - MAX_CORRECTIONS);
  chart.flash(corrected.map(({ t }) => t));
  tell();
}

// Adds empty buckets as time passes. After many new buckets, draws everything again, so that a long gap is shortened.
export function passTime() {
  const last = chart.lastSlot();
  if (!shown || state.loading || shown.candles.hasNewer || last === undefined) return;
  const { interval, zone } = shown.candles;
  const opens = [];
  for (let open = nextOpen(last, interval, zone); open <= now() && opens.length < 100; open = nextOpen(open, interval, zone)) opens.push(open);
  if (!opens.length) return;
  shown.extended += opens.length;
  if (shown.extended < PAGE) return chart.extend(opens);
  shown.extended = 0;
  draw();
}

// Called after each connect. The server sends the candles from `since` on. Older candles are revalidated after the server has
// confirmed the subscription.
export function resume() {
  api.retryNow();
  live.resume(shown?.candles.last?.t ?? null);
  if (!asked) return;
  if (state.failure) reopen();
  else if (shown?.candles.hasNewer) revalidate();
}

// Opens the requested view again after a failure.
export const reopen = () => open(asked.range);

// Revalidates again if the last revalidation failed.
export function catchUp() {
  if (shown?.isStale && !state.loggedOut) revalidate();
}

// Reads the loaded candles again, because they may have changed without a message.
async function revalidate() {
  const mine = shown;
  mine.isStale = true;
  if (mine.busy.revalidation) return;
  mine.busy.revalidation = true;
  try {
    while (mine === shown && mine.isStale) {
      mine.isStale = false;
      await readAgain(mine);
    }
    if (mine === shown && state.live.state === 'open') update({ isCatchingUp: false });
  } catch (failure) {
    mine.isStale = true;
    const isDropped = mine === shown && failure.code === 'unknown_symbol';
    if (isDropped) leave(null);
    if (isDropped || failure instanceof api.LoggedOut) fail(failure);
  } finally {
    mine.busy.revalidation = false;
  }
}

// Drops loaded candles whose ticks were removed meanwhile. This does not count as a correction.
function dropBelow(line) {
  const known = shown.candles;
  known.hasOlder = false;
  if (known.first?.t < line) {
    known.rows.splice(0, known.index(line));
    draw();
  }
}

// The entity tag changes with every change of the symbol. So a 304 for the tag of the first read means that nothing has
// changed since.
async function readAgain(mine) {
  const known = mine.candles;
  let start = known.hasOlder ? known.first?.t ?? mine.range.from ?? 0 : mine.line ?? 0;
  let newest = null;
  for (let isMore = true; isMore;) {
    const end = known.hasNewer ? known.last?.t ?? mine.range.to : Infinity;
    const query = { startTime: start, limit: MAX_READ, ...(end < Infinity && { endTime: Math.max(start, end) }) };
    const { content, tag, during } = await read(mine, query, { tag: newest ? null : mine.tag });
    if (mine !== shown || !content) return;
    if (start < mine.line) dropBelow(mine.line);
    newest ??= tag;
    isMore = content.more;
    const until = isMore ? content.candles.at(-1).t : end;
    apply(known.replace(start, until, overlaid(content.candles, during, start, until)));
    start = until + 1;
  }
  mine.tag = newest;
}
