// Starts the page, connects its parts, and handles the user's choices.

import * as address from './address.js';
import * as api from './api.js';
import * as chart from './chart.js';
import * as corrections from './corrections.js';
import * as coverage from './coverage.js';
import { $, say } from './dom.js';
import * as feed from './feed.js';
import * as indicatorMenu from './indicator_menu.js';
import { MAX_TIME, nextOpen, width } from './intervals.js';
import * as keyboard from './keyboard.js';
import * as legend from './legend.js';
import * as live from './live.js';
import * as login from './login.js';
import * as menus from './menus.js';
import * as newestTrade from './newest_trade.js';
import * as panels from './panels.js';
import * as pickers from './pickers.js';
import * as priceAxis from './price_axis.js';
import * as ranges from './ranges.js';
import { firstSymbol, remember, remembered, state, subscribe, update } from './state.js';
import * as status from './status.js';
import * as symbols from './symbols.js';
import * as toolbar from './toolbar.js';
import * as zones from './time_zones.js';
import * as zoneChoices from './zone_choices.js';

const SETTLE_MS = 250; // after a movement, settle() waits this long for further movements
const EMPTY_MS = 3000; // between two tries to find a first symbol

const FITTING = { bars: null, from: null, to: null };

let range = FITTING; // the range in the address
let fitted = null; // the number of bars that the page has chosen, because the address has none
let settleTimer = 0;

function start() {
  chart.start({ onRange: moved, onCrosshair: (time) => legend.point(time), onPaint: priceAxis.draw });
  for (const part of [status, coverage, priceAxis, newestTrade]) part.start();
  corrections.start({ onCandle: showCandle });
  panels.start({ watchlist: { onSymbol: setSymbol, onList: setList }, trades: { onTrade: showCandle, onSize: setMinSize } });
  const actions = {
    newest, reset, range: showRange, date: ranges.toggle, leave, zoom: chart.zoom,
    type: () => setType(address.TYPES[(address.TYPES.indexOf(state.type) + 1) % address.TYPES.length]),
    log: () => setScale('log'), percent: () => setScale('percent'), invert, connected: connect, auto: chart.autoScale,
    indicators: () => menus.toggle('indicators-menu'), watchlist: () => togglePanel('watchlist'), trades: () => togglePanel('trades'), corrections: corrections.open, more: () => menus.toggle('more-menu'),
    zone: pickers.openZone, link: exporting('copyLink'), image: exporting('copyImage'), csv: exporting('csv'), png: exporting('png'), help, full: toggleFullScreen,
    move: (step) => chart.scrollBy(step * Math.max(Math.round((chart.view()?.bars ?? 0) / 20), 1)),
    read: (step) => legend.point(chart.moveCrosshair(legend.time(), step), { announce: true }),
  };
  toolbar.start({ onSymbol: setSymbol, onInterval: chooseInterval, onZone: setZone, onType: setType, actions });
  ranges.start({ onRange: showRange, onDate: showDate });
  indicatorMenu.start(setIndicators);
  keyboard.start(actions);
  login.start({ onLogin: repeatFailed });
  feed.onCandles(() => { coverage.paint(); legend.draw(); settleSoon(); });
  subscribe((changed) => { if (changed.has('symbols')) noteNewest(); });
  document.addEventListener('show-newest', reset);
  document.addEventListener('show-minutes', () => chooseInterval('1m'));
  $('close-notice').onclick = () => notice([]);
  for (const panel of address.PANELS) $(`close-${panel}`).onclick = () => togglePanel(panel);
  addEventListener('popstate', openAddress);
  setInterval(feed.passTime, 1000);
  setInterval(() => { if (!state.symbol && !state.loggedOut && !state.loading && !state.failure) openAddress(); }, EMPTY_MS);
  firstAnswer().then(() => {
    api.dropEarly();
    live.start({ onState: connection, onMessage: message, onOpen: feed.resume });
  });
  openAddress();
}

// Modules that are rarely used are loaded at their first use, so that the page opens sooner.
const exporting = (name) => async () => (await import('./export.js'))[name]();
const help = async () => (await import('./help.js')).toggle();

// Resolves when the first candles are drawn, or when their request has failed.
const firstAnswer = () => new Promise((resolve) => { subscribe(() => { if (!state.loading) resolve(); }); });

// -- the view and its address ------------------------------------------------------------------------------------------

async function openAddress() {
  const given = address.completed(location.search);
  const kept = remembered('panels')?.split(',').filter((each) => address.PANELS.includes(each));
  range = { bars: given.bars, from: given.from, to: given.to };
  update({
    interval: given.interval, zone: given.zone, type: given.type ?? 'candles', scale: given.scale ?? 'linear', isInverted: given.isInverted, isConnected: given.isConnected, indicators: given.indicators,
    panels: given.panels ?? (location.search ? [] : kept ?? []), list: given.list ?? 'mine', minSize: given.minSize,
  });
  chart.setType(state.type);
  chart.setScale(state.scale, state.isInverted);
  chart.setConnected(state.isConnected);
  chart.setIndicators(state.indicators);
  notice(given.faults);
  const listed = symbols.read();
  login.check();
  if (!given.symbol) await listed;
  const symbol = given.symbol ?? firstSymbol(state.symbols);
  update({ ...atSymbol(symbol), ...(!symbol && !state.failure && { loading: false }) });
  if (symbol) await open();
}

// The parts of the state that change with the symbol.
const atSymbol = (symbol) => ({ symbol, ...(symbol !== state.symbol && { newest: null, price: null, coverage: [] }) });

// Tells the user which parts of the address are invalid, and what is shown instead.
function notice(faults) {
  $('notice').hidden = !faults.length;
  if (faults.length) $('notice-text').textContent = [...faults, `Shown: ${state.interval}, ${zones.label(state.zone)}.`].join(' ');
}

function noteNewest() {
  const found = state.symbols.find(({ symbol, aliases }) => [symbol, ...aliases].includes(state.symbol));
  if (found && found.last > (state.newest ?? 0)) update({ newest: found.last });
}

// Opens the view. `mayBeEmpty` is explained at feed.open().
async function open(mayBeEmpty = true) {
  if (!state.symbol) return;
  legend.point(null);
  noteNewest();
  coverage.read();
  const asked = state.symbol;
  const shown = await feed.open(range, { mayBeEmpty });
  if (shown) {
    if (range.bars === null) fitted = shown.bars;
    range = shown;
    update({ isEmpty: false });
    writeAddress();
  }
  if (state.symbol !== asked) coverage.read(); // an alias was replaced by its symbol
  legend.draw();
}

function moved() {
  const view = chart.view();
  if (!view || state.loading) return;
  $('newest').hidden = view.hasNewest;
  range = feed.rangeOf(view);
  // The message takes the pointer, so it goes at once.
  if (state.isEmpty && legend.lastVisible(feed.candles())) update({ isEmpty: false });
  legend.draw();
  feed.prefetch(view);
  status.drawEnd();
  settleSoon();
}

// The chart has `data-moving` until the address has followed it.
function settleSoon() {
  settleTimer ||= setTimeout(settle, SETTLE_MS);
  $('chart').dataset.moving = '';
}

function settle() {
  settleTimer = 0;
  delete $('chart').dataset.moving;
  const view = chart.view();
  if (!view || state.loading) return;
  update({ isEmpty: !legend.lastVisible(feed.candles()) });
  legend.draw();
  coverage.drawKey();
  status.drawEnd();
  writeAddress();
}

// The address of the current view. Each symbol has an entry in the browser's history; all other changes replace the address.
const written = () => address.written({ ...state, ...range });
// A browser limits how often it may be replaced.
const writeAddress = () => { if (location.search !== written()) history.replaceState(null, '', written()); };

// Changes the view by the user's choice. The browser remembers the choices of the user, but not those of an opened link.
function choose(changes) {
  update(changes);
  for (const name of ['symbol', 'interval', 'zone', 'panels']) if (name in changes) remember(name, String(changes[name]));
}

// -- choices -----------------------------------------------------------------------------------------------------------

function setSymbol(symbol) {
  if (symbol === state.symbol) return;
  toolbar.openSheet(false);
  writeAddress();
  if (range.bars === fitted) range = { ...range, bars: null };
  choose(atSymbol(symbol));
  history.pushState(null, '', written());
  open(false);
}

// Changes the interval. The view keeps its right edge and its number of bars.
function chooseInterval(interval) {
  toolbar.openSheet(false);
  if (interval === state.interval) return;
  const view = chart.view();
  if (range.from === null && range.bars === fitted) range = FITTING;
  else if (view) range = { ...range, bars: view.bars };
  if (range.from !== null && view) {
    const known = feed.candles();
    const last = known.before(range.to);
    const to = last ? Math.min(range.to, nextOpen(last.t, known.interval, known.zone)) : range.to;
    range = { ...range, from: to - view.bars * width(interval), to };
  }
  choose({ interval });
  open(false);
}

function setZone(zone) {
  zoneChoices.note(zone);
  choose({ zone });
  open();
}

function setType(type) {
  update({ type });
  chart.setType(type);
  writeAddress();
}

// Chooses a scale of prices; a second choice of the same scale returns to linear prices.
function setScale(scale) {
  update({ scale: state.scale === scale ? 'linear' : scale });
  chart.setScale(state.scale, state.isInverted);
  writeAddress();
}

function invert() {
  update({ isInverted: !state.isInverted });
  chart.setScale(state.scale, state.isInverted);
  writeAddress();
}

function connect() {
  update({ isConnected: !state.isConnected });
  chart.setConnected(state.isConnected);
  legend.draw();
  writeAddress();
}

function setIndicators(indicators) {
  update({ indicators });
  chart.setIndicators(indicators);
  const view = chart.view();
  if (view) feed.prefetch(view);
  legend.draw();
  writeAddress();
}

function togglePanel(panel) {
  choose({ panels: address.PANELS.filter((each) => state.panels.includes(each) !== (each === panel)) });
  writeAddress();
}

function showRange(name) {
  const known = state.symbols.find(({ symbol }) => symbol === state.symbol);
  if (!known) return say('It is not known yet from when to when this symbol was traded. Please try again.');
  const { interval, from, to } = ranges.rangeOf(name, known.first, state.newest ?? known.last);
  toolbar.openSheet(false);
  range = { bars: null, from, to: nextOpen(to, interval, state.zone) };
  choose({ interval });
  open();
}

// Shows a time in the middle of the view, with as many bars as before. The crosshair goes to its candle, if that is in sight.
function showDate(time) {
  toolbar.openSheet(false);
  const half = (chart.view()?.bars ?? 160) / 2 * width(feed.candles()?.interval ?? state.interval);
  const from = Math.max(time - half, 0);
  range = { bars: null, from, to: Math.min(time + half, MAX_TIME) };
  // The library applies the new range in its next frame. Only then does the time have a place on the screen.
  open().then(() => requestAnimationFrame(() => { if (feed.candles()?.before(time)?.t >= from) legend.point(chart.moveCrosshair(time, 0)); }));
}

// Puts the crosshair on the candle of a time. The view moves if the candle is not in sight.
function showCandle(time) {
  const known = feed.candles();
  const row = known?.before(time);
  const view = chart.view();
  if (!row || row.t < view.from || row.t > view.to) return showDate(time); // it becomes the middle of the view
  chart.moveCrosshair(time, 0); // scrolls; the crosshair follows in the next frame, as in showDate()
  requestAnimationFrame(() => legend.point(chart.moveCrosshair(time, 0)));
}

function setList(list) {
  update({ list });
  writeAddress();
}

function setMinSize(minSize) {
  update({ minSize });
  writeAddress();
}

function toggleFullScreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.documentElement.requestFullscreen();
}

function newest() {
  if (feed.candles()?.hasNewer) reset();
  else if (chart.view()) chart.showNewest(chart.view().bars);
}

function reset() {
  range = FITTING;
  open();
}

function leave() {
  chart.clearCrosshair();
  legend.point(null);
}

// -- live --------------------------------------------------------------------------------------------------------------

function connection(kind, retryAt) {
  update({ live: { state: kind, retryAt }, ...(kind !== 'open' && { isCatchingUp: true }) });
  if (kind === 'offline') login.check();
}

function message(given) {
  const { trades, watchlist } = panels.loaded;
  if (given.code === 'missed') newestTrade.doubt();
  if (given.type === 'tick') {
    newestTrade.takeTick(given);
    trades?.take(given);
  }
  else if (given.type === 'symbol') named(given.symbol);
  else if (given.interval === 'symbols') symbols.readSoon(); // the list has lost one, or gained one that was not sent
  else if (given.type === 'summary') {
    newestTrade.takeSummaries(given.items);
    watchlist?.take(given.items);
  }
  else if (given.interval === 'summary' && given.code === 'missed') watchlist?.read();
  else if (given.interval !== 'ticks') feed.take(given);
  else if (given.type === 'subscribed' || given.code === 'missed') trades?.read(); // some trades were not sent
}

// A symbol has got its first trade. It may be the one that the page could not show.
function named(symbol) {
  symbols.readSoon();
  if (symbol === state.symbol && state.failure) feed.reopen();
}

// Called after a new login. Repeats everything that may have failed without a login.
function repeatFailed() {
  login.check();
  symbols.read();
  panels.loaded.trades?.read();
  coverage.read();
  live.retry();
  if (!state.symbol) openAddress();
  else if (!feed.isComplete()) open();
  else feed.catchUp();
}

start();
