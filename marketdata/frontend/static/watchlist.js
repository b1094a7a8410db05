// The watchlist: the last 24 hours of the user's symbols, or of those that lead in an order. One live subscription follows
// the shown symbols. What live messages lack, the sparklines and the order, is read again each minute.

import * as api from './api.js';
import { LISTS } from './address.js';
import * as decimals from './decimals.js';
import { $, button, element, say } from './dom.js';
import * as live from './live.js';
import { now, remember, remembered, state, subscribe } from './state.js';
import { drawSparkline, sparkline } from './sparkline.js';
import * as zones from './time_zones.js';

const EVERY_MS = 60_000;
const CHOOSE_MS = 200; // an arrow key chooses the symbol when no further key follows for this long
const MAX_MINE = 200; // the API's limit of named symbols
const NAME_END = 8; // the characters of a name that are never cut off
const FIRST = 50; // symbols of the other lists
const NAMES = { mine: 'My list', change: 'Most moved', volume: 'Most volume', newest: 'Newest' };

let items = []; // as the API sends them
let isRead = false; // whether they were read once
let oldAt = null; // since when they may be old; null while they are current
let dropped = []; // the symbols that the API does not know
let abort = new AbortController();
let rows = new Map(); // by symbol
let first = null; // the first symbol that the page has shown
let active = null; // the symbol that the arrow keys have reached
let choosing = 0;
let handlers = {};

// `given` has the handlers onSymbol(symbol), and onList(name) for a chosen list.
export function start(given) {
  handlers = given;
  $('list').replaceChildren(...LISTS.map((each) => element('option', { value: each }, NAMES[each])));
  $('list').onchange = () => handlers.onList($('list').value);
  $('watch-shown').onclick = () => toggleMine(state.symbol);
  $('watch-rows').addEventListener('click', onClick);
  $('watch-rows').addEventListener('keydown', onKey);
  setInterval(() => { if (!document.hidden && !state.loggedOut) read(); }, EVERY_MS);
  subscribe((changed) => {
    if (changed.has('list')) [items, dropped, isRead] = [[], [], false];
    if (changed.has('live') && state.live.state === 'offline') oldAt ??= now();
    const isBack = changed.has('live') && state.live.state === 'open';
    const isFirst = changed.has('loading') && !state.loading && !items.length;
    if (changed.has('panels') || changed.has('list') || isBack || isFirst) read();
    if (['symbol', 'failure', 'list', 'live'].some((name) => changed.has(name))) draw();
  });
  read();
}

const isOpen = () => state.panels.includes('watchlist');

// -- the user's list ---------------------------------------------------------------------------------------------------

// The user's symbols. Before a choice, this is the first symbol that the page has shown.
function mine() {
  const stored = remembered('watchlist');
  if (stored !== null) return stored.split(',').filter(Boolean);
  if (!state.loading && !state.failure) first ??= state.symbol;
  return first === null ? [] : [first];
}

function toggleMine(symbol) {
  const before = mine();
  if (!before.includes(symbol) && before.length >= MAX_MINE) return say(`The list has ${MAX_MINE} symbols, the most allowed.`);
  remember('watchlist', (before.includes(symbol) ? before.filter((each) => each !== symbol) : [...before, symbol]).join(','));
  return state.list === 'mine' ? read() : draw();
}

// -- loading -----------------------------------------------------------------------------------------------------------

export async function read() {
  abort.abort();
  abort = new AbortController();
  if (!isOpen()) return follow([]);
  const { signal } = abort;
  const options = { signal, onFailure: fail };
  try {
    const found = await (state.list === 'mine' ? readMine(options) : api.summary({ sort: state.list, limit: FIRST, closes: '1h' }, options));
    if (signal.aborted) return undefined;
    [items, isRead, oldAt] = [found.items, true, null];
    follow(items.map(({ symbol }) => symbol));
    return draw();
  } catch {
    return signal.aborted ? undefined : fail();
  }
}

function fail() {
  oldAt ??= now();
  draw();
}

const follow = (symbols) => live.followSummaries('watchlist', symbols);

// Reads the user's symbols. One that the API does not know is dropped from the list.
async function readMine(options) {
  const symbols = mine();
  if (!symbols.length) return { items: [] };
  try {
    return await api.summary({ symbol: symbols.join(','), closes: '1h' }, options);
  } catch (reason) {
    const unknown = reason.code === 'unknown_symbol' && symbols.find((each) => reason.message.includes(` ${each};`));
    if (!unknown) throw reason;
    dropped.push(unknown);
    remember('watchlist', symbols.filter((each) => each !== unknown).join(','));
    return readMine(options);
  }
}

// Takes items from the WebSocket. They have no closes; the last one is the last price.
export function take(changed) {
  const bySymbol = new Map(changed.map((item) => [item.symbol, item]));
  items = items.map((item) => {
    const newer = bySymbol.get(item.symbol);
    return newer ? { ...newer, closes24h: [...item.closes24h.slice(0, -1), newer.last] } : item;
  });
  draw();
}

// -- drawing -----------------------------------------------------------------------------------------------------------

function draw() {
  if (!isOpen()) return;
  const listed = mine();
  $('list').value = state.list;
  $('watch-note').textContent = note();
  $('watch-shown').hidden = !state.symbol || Boolean(state.failure);
  $('watch-shown').textContent = listed.includes(state.symbol) ? `★ Remove ${state.symbol}` : `☆ Add ${state.symbol}`;
  $('watch-table').hidden = !items.length;
  const before = rows;
  rows = new Map(items.map((item) => [item.symbol, before.get(item.symbol) ?? made(item.symbol)]));
  if (!rows.has(active)) active = rows.has(state.symbol) ? state.symbol : items[0]?.symbol ?? null;
  for (const item of items) fill(rows.get(item.symbol), item, listed.includes(item.symbol));
  const wanted = [...rows.values()].map(({ row }) => row);
  if (wanted.length === $('watch-rows').children.length && wanted.every((row, at) => row === $('watch-rows').children[at])) return;
  const focused = $('watch-rows').contains(document.activeElement) ? document.activeElement : null;
  $('watch-rows').replaceChildren(...wanted);
  focused?.focus({ preventScroll: true }); // a moved row loses the focus
}

function made(symbol) {
  const cells = { star: button('', null, { class: 'icon star' }), volume: element('span', { class: 'quiet' }), last: element('span'), change: element('span', { class: 'moved' }), line: sparkline() };
  const row = element('tr', { 'data-symbol': symbol }, element('td', {}, cells.star), element('td', {}, nameOf(symbol), cells.volume),
    element('td', {}, cells.line), element('td', {}, cells.last, cells.change));
  return { row, ...cells };
}

// A name that has no room is cut in its middle: its end has the pool's quote.
function nameOf(symbol) {
  const at = Math.max(symbol.length - NAME_END, 0);
  return element('b', { class: 'name', title: symbol }, element('span', {}, symbol.slice(0, at)), symbol.slice(at));
}

// The name of a symbol usually ends with that of its quote.
const quoteOf = (symbol) => symbol.split('-').slice(1).at(-1) ?? 'in the quote';

function fill({ row, star, volume, last, change, line }, item, isMine) {
  const direction = item.change24h === null || Number(item.change24h) === 0 ? '' : item.change24h.startsWith('-') ? 'down' : 'up';
  row.className = direction;
  if (item.symbol === state.symbol) row.setAttribute('aria-current', 'true');
  else row.removeAttribute('aria-current');
  for (const each of [row, star]) each.tabIndex = item.symbol === active ? 0 : -1;
  star.textContent = isMine ? '★' : '☆';
  star.setAttribute('aria-pressed', String(isMine));
  star.setAttribute('aria-label', `${item.symbol} in my list`);
  volume.textContent = `Vol ${decimals.amount(item.quote_volume24h)} ${quoteOf(item.symbol)}`;
  volume.title = `24 hours: ${item.quote_volume24h} ${quoteOf(item.symbol)}, ${item.volume24h} in the base, ${item.trades24h} trades`;
  last.textContent = item.last === null ? '–' : decimals.short(item.last);
  last.title = item.last ?? 'no trade yet';
  change.textContent = item.open24h === null ? '' : decimals.change(item.open24h, item.last);
  change.title = 'The change in 24 hours';
  drawSparkline(line, item.closes24h);
}

function note() {
  const parts = dropped.map((symbol) => `${symbol} does not exist and was removed from the list.`);
  if (oldAt !== null) parts.push(items.length ? `Not connected. These are the values of ${zones.parts(oldAt, state.zone).second}.` : 'The data API does not answer. The list is read again by itself.');
  else if (!items.length && isRead) parts.push(state.list === 'mine' ? 'The list is empty. The star adds a symbol.' : 'No symbol has trades yet.');
  else if (state.list !== 'mine' && items.length === FIRST) parts.push(`These are the first ${FIRST} symbols.`);
  return parts.join(' ');
}

// -- choosing ----------------------------------------------------------------------------------------------------------

function onClick({ target }) {
  const { symbol } = target.closest('tr').dataset;
  if (target.closest('.star')) toggleMine(symbol);
  else choose(symbol);
}

function choose(symbol) {
  clearTimeout(choosing);
  active = symbol;
  handlers.onSymbol(symbol);
  draw();
}

const STEPS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

function onKey(event) {
  const step = STEPS[event.key];
  if (event.key === 'Enter' && !event.target.closest('.star')) choose(active);
  else if (!step) return;
  else moveBy(step);
  event.preventDefault();
}

function moveBy(step) {
  const symbols = [...rows.keys()];
  active = symbols[Math.min(Math.max(symbols.indexOf(active) + step, 0), symbols.length - 1)];
  draw();
  rows.get(active).row.focus();
  clearTimeout(choosing);
  choosing = setTimeout(() => choose(active), CHOOSE_MS);
}
