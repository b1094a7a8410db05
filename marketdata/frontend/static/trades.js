// The panel with the list of trades, newest first. A trade that a reorganisation removed stays in the list and is struck
// through. Only the rows in sight are in the document.

import * as api from './api.js';
import * as decimals from './decimals.js';
import { $, element } from './dom.js';
import { now, state, subscribe } from './state.js';
import { removed } from './status.js';
import * as zones from './time_zones.js';
import { TradeList } from './trade_list.js';

const PAGE = 100; // trades of one read
const FILTERED_PAGE = 1000; // the same with a size, which few trades may have
const AGAIN = 10_000; // trades that are read again at most, the API's limit
const BESIDE = 20; // rows in the document above and below the rows in sight
const TYPING_MS = 300; // after a key in the field, the size is read when no further key follows for this long

let list = new TradeList();
let abort = new AbortController(); // of the list's reads
let reading = Promise.resolve(); // these reads, one after another
let pending = 0; // how many of them are not finished
let hasFailed = false; // whether the last of them failed
let isOlderWanted = false; // whether one of them reads older trades
let waiting = false;
let shown = []; // the list's rows when it was drawn
let active = null; // the id of the trade that the arrow keys have reached
let made = new Map(); // the rows in the document, by id: {trade, day, zone, row}
let onTime = () => {};

// Calls `onTrade(time)` for a chosen trade, and `onSize(minSize)` for a typed size.
export function start({ onTrade, onSize }) {
  onTime = onTrade;
  let typing = 0;
  $('min-size').oninput = () => {
    clearTimeout(typing);
    typing = setTimeout(() => readSize(onSize), TYPING_MS);
  };
  $('older-trades').onclick = readOlder;
  $('newest-trades').onclick = readNewest;
  $('trade-rows').addEventListener('click', ({ target }) => show(target.closest('tr').dataset.id));
  $('trade-rows').addEventListener('keydown', onKey);
  scroller().addEventListener('scroll', onScroll);
  new ResizeObserver(draw).observe(scroller());
  subscribe((changed) => {
    if (changed.has('symbol')) begin(new TradeList(state.minSize));
    else if (changed.has('minSize')) begin(list.filter(state.minSize));
    else if (changed.has('panels') && isOpen()) read();
    else if (changed.has('zone')) draw();
  });
  begin(new TradeList(state.minSize));
}

const isOpen = () => state.panels.includes('trades');
const scroller = () => $('trade-scroller');

function readSize(onSize) {
  const typed = $('min-size').value;
  const size = decimals.parsed(typed);
  const isFault = size === null && typed.trim() !== '';
  $('min-size').setAttribute('aria-invalid', String(isFault));
  if (isFault || size === state.minSize) draw();
  else onSize(size);
}

// -- loading -----------------------------------------------------------------------------------------------------------

function begin(given) {
  if (given !== list) {
    abort.abort();
    [abort, reading, pending, isOlderWanted] = [new AbortController(), Promise.resolve(), 0, false];
  }
  list = given;
  if (decimals.parsed($('min-size').value) !== list.minSize) {
    $('min-size').value = list.minSize ?? '';
    $('min-size').removeAttribute('aria-invalid');
  }
  scroller().scrollTop = 0;
  readPage(pageSize, (page, during) => list.takeNewest(page, during, false));
  draw();
}

const pageSize = () => ({ limit: list.minSize === null ? PAGE : FILTERED_PAGE });

// Reads the loaded trades and all newer ones again, because some changes were not sent.
export function read() {
  if (!list.again) return begin(list);
  return readPage(() => ({ ...list.again, limit: AGAIN }), (page, during) => {
    if (page.next_cursor) readNewest(); // too many trades are new
    else list.takeNewest(page, during, true);
  });
}

// Shows the newest trades again. Loaded trades that are not among these are dropped.
function readNewest() {
  list.hasNewer = false;
  begin(list);
}

function readOlder() {
  if (isOlderWanted || !list.next) return;
  isOlderWanted = true;
  readPage(() => ({ ...pageSize(), ...list.next }), (page) => list.takeOlder(page)).then(() => { isOlderWanted = false; });
}

// Reads the page of `query()` after the reads before it, and gives it to `take`, with the ids of the trades that changed
// during the request.
function readPage(query, take) {
  const { symbol } = state;
  if (!isOpen() || !symbol) return Promise.resolve();
  const mine = list;
  pending += 1;
  reading = reading.then(async () => {
    if (mine !== list) return;
    const during = new Set();
    mine.reads.add(during);
    try {
      const send = (given) => api.ticks({ symbol, sort: 'desc', ...given }, { signal: abort.signal, onFailure: () => fail(mine) });
      const wanted = query();
      const page = await send(wanted).catch((failure) => api.above(mine, wanted, send, failure)) ?? { ticks: [], next_cursor: null };
      if (mine === list) take(page, during);
      hasFailed = false;
    } catch {
      fail(mine);
    }
    mine.reads.delete(during);
    if (mine === list) pending -= 1;
    draw();
  });
  return reading;
}

// Notes that a read of a list has failed. The chart shows why.
function fail(mine) {
  if (mine !== list) return;
  hasFailed = true;
  draw();
}

// Adds a tick from the WebSocket, or marks a trade as removed.
export function take(tick) {
  if (tick.symbol !== state.symbol) return;
  list.take(tick);
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

// -- the rows ----------------------------------------------------------------------------------------------------------

const rowHeight = () => $('trade-rows').firstElementChild?.getBoundingClientRect().height || 22;

function draw() {
  if (!isOpen()) return;
  $('newest-trades').hidden = !list.hasNewer;
  $('trade-note').textContent = note();
  $('older-trades').hidden = !list.next;
  const { rows } = list;
  const height = rowHeight();
  const scrolled = scrolledTo(rows, height);
  const first = Math.min(Math.max(Math.floor(scrolled / height) - BESIDE, 0), rows.length);
  const last = Math.min(first + Math.ceil(scroller().clientHeight / height) + 2 * BESIDE, rows.length);
  $('trade-table').parentElement.style.padding = `${first * height}px 0 ${(rows.length - last) * height}px`;
  $('trade-table').setAttribute('aria-rowcount', String(rows.length + 1));
  $('trade-table').classList.toggle('dated', rows.length > 0 && dateOf(rows.at(-1)) !== today());
  if (!rows.some(({ id }) => id === active)) active = rows[0]?.id ?? null;
  put(rows.slice(first, last), first);
  if (scrolled !== scroller().scrollTop) scroller().scrollTop = scrolled;
  shown = rows;
}

// Where the list has to be scrolled to. If it is not at its top, the same rows stay in sight when others are added above them.
function scrolledTo(rows, height) {
  const { scrollTop } = scroller();
  const before = Math.floor(scrollTop / height);
  const at = scrollTop > 0 && rows !== shown ? rows.findIndex(({ id }) => id === shown[before]?.id) : -1;
  return at < 0 ? scrollTop : scrollTop + (at - before) * height;
}

const dateOf = ({ ts }) => zones.parts(Date.parse(ts), state.zone).date;
const today = () => zones.parts(now(), state.zone).date;

// Puts the rows into the document. A row that stays there is not moved, so that it keeps the focus.
function put(trades, first) {
  const day = today();
  const before = made;
  made = new Map();
  for (const trade of trades) {
    const known = before.get(trade.id);
    const isSame = known?.trade === trade && known.day === day && known.zone === state.zone;
    made.set(trade.id, isSame ? known : { trade, day, zone: state.zone, row: drawn(trade, day) });
  }
  const hadFocus = $('trade-rows').contains(document.activeElement);
  for (const { row, trade } of before.values()) if (made.get(trade.id)?.row !== row) row.remove();
  let place = $('trade-rows').firstElementChild;
  for (const [at, { row, trade }] of [...made.values()].entries()) {
    row.setAttribute('aria-rowindex', String(first + at + 2));
    row.tabIndex = trade.id === active ? 0 : -1;
    if (row === place) place = place.nextElementSibling;
    else $('trade-rows').insertBefore(row, place);
  }
  if (hadFocus && document.activeElement === document.body) (made.get(active)?.row ?? scroller()).focus({ preventScroll: true });
}

const MARKS = { buy: 'buy at', sell: 'sell at' };

function drawn({ id, ts, price, size, side, retracted }, day) {
  const { date, second } = zones.parts(Date.parse(ts), state.zone);
  const spoken = [retracted ? 'removed:' : '', MARKS[side] ?? '', price].filter(Boolean).join(' ');
  return element('tr', { 'data-id': id, class: `${side ?? ''}${retracted ? ' retracted' : ''}`, title: retracted ? 'Removed by a reorganisation of the chain' : null },
    element('td', { title: `${date} ${second}${side ? `, ${side}` : ''}` }, zones.short(Date.parse(ts), state.zone, day)),
    element('td', { title: price, 'aria-label': spoken }, decimals.short(price)), element('td', { title: size }, decimals.amount(size)));
}

function note() {
  const { rows, seen, next, minSize } = list;
  if ($('min-size').getAttribute('aria-invalid') === 'true') return 'The size is a number like 0.5.';
  if (hasFailed) return 'The trades could not be read.';
  if (pending && !rows.length) return 'Reading …';
  if (!next && list.line) return removed(list.line);
  if (rows.length) return next ? '' : 'There are no older trades.';
  if (minSize === null) return 'No trades yet.';
  return next ? `None of the last ${decimals.short(String(seen))} trades has this size.` : 'No trade has this size.';
}

// -- scrolling and keys ------------------------------------------------------------------------------------------------

function onScroll() {
  const { scrollTop, clientHeight, scrollHeight } = scroller();
  if (!hasFailed && scrollTop > 0 && scrollTop + clientHeight > scrollHeight - 2 * rowHeight()) readOlder();
  draw();
}

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

function onKey(event) {
  const step = STEPS[event.key];
  if (step) moveTo(list.rows.findIndex(({ id }) => id === active) + step);
  else if (event.key === 'Enter') show(active);
  else return;
  event.preventDefault();
}

function moveTo(wanted) {
  const at = Math.min(Math.max(wanted, 0), list.rows.length - 1);
  active = list.rows[at].id;
  const height = rowHeight();
  const head = $('trade-table').tHead.offsetHeight;
  const box = scroller();
  box.scrollTop = Math.min(Math.max(box.scrollTop, (at + 1) * height + head - box.clientHeight), at * height);
  onScroll();
  made.get(active).row.focus({ preventScroll: true });
}

function show(id) {
  active = id;
  draw();
  onTime(Date.parse(list.rows.find((trade) => trade.id === id).ts));
}
