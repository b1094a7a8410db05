// The status of the page: the live dot, the message in place of a chart, and the note where candles end.

import * as api from './api.js';
import * as chart from './chart.js';
import * as coverage from './coverage.js';
import { $, button, element } from './dom.js';
import * as feed from './feed.js';
import * as live from './live.js';
import { now, state, subscribe } from './state.js';
import * as zones from './time_zones.js';

const OLD_MS = 18_000; // a connection is old that has missed a heartbeat of the server

let said = '';
let loadingSince = 0;

export function start() {
  $('retry').onclick = live.retry;
  setInterval(drawDot, 250);
  subscribe((changed) => {
    if (['live', 'newest', 'coverage', 'retrying', 'isCatchingUp'].some((name) => changed.has(name))) drawDot();
    if (changed.has('loading')) {
      loadingSince = performance.now();
      if (state.loading) setTimeout(drawMessage, feed.QUIET_MS + 10);
    }
    if (['loading', 'failure', 'symbols', 'symbol', 'live', 'isEmpty', 'coverage'].some((name) => changed.has(name))) drawMessage();
  });
  feed.onCandles(drawMessage);
}

// -- the live dot ------------------------------------------------------------------------------------------------------

function drawDot() {
  const [kind, text] = dot();
  $('live').className = `liveness ${kind}`;
  if ($('live-text').textContent !== text) $('live-text').textContent = text;
  $('live').title = TITLES[kind];
  $('retry').hidden = kind !== 'offline' || state.loggedOut;
  // A screen reader announces a change of the kind, but not each change of the age.
  if (said !== kind && !(said === '' && kind === 'connecting')) $('said').textContent = SPOKEN[kind];
  said = kind;
}

const TITLES = {
  live: 'Connected. The time since the newest trade.',
  silent: 'What you see may be old.',
  catching: 'Connected again. The candles are being read again, so they may be old.',
  behind: 'Connected, but the ingestor has not read the newest blocks yet.',
  failing: 'A request has failed. The page sends it again.',
  connecting: 'Connecting.',
  offline: 'Not connected: what you see may be old.',
};
const SPOKEN = {
  live: 'Live.', silent: 'No message arrives.', catching: 'Catching up.', behind: 'The ingestor is behind.', failing: 'A request has failed, trying again.', connecting: 'Connecting.', offline: 'Offline. The chart may be old.',
};

function dot() {
  const { newest } = state;
  if (!navigator.onLine && !state.loggedOut) return ['silent', 'this browser is offline'];
  if (state.live.state === 'open') {
    const silence = live.silence();
    if (silence > OLD_MS) return ['silent', `nothing heard for ${span(silence)}`];
    if (state.retrying) return ['failing', 'a request failed, trying again'];
    if (coverage.isLate()) return ['behind', `behind ${span(coverage.lag())}`];
    if (state.isCatchingUp && feed.candles()) return ['catching', 'catching up'];
    return ['live', newest === null ? 'live' : `last trade ${span(Math.max(now() - newest, 0))} ago`];
  }
  if (state.live.state === 'connecting') return ['connecting', 'connecting'];
  const last = newest === null ? '' : `, last ${zones.parts(newest, state.zone).second}`;
  if (state.loggedOut) return ['offline', `logged out${last}`];
  const seconds = Math.max(Math.ceil((state.live.retryAt - Date.now()) / 1000), 0);
  return ['offline', `offline${last}, ${seconds ? `trying again in ${seconds} s` : 'trying again'}`];
}

// `50 s`, `3 min`, `30 h`, `2 days`: whole units that have passed.
function span(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

// -- in place of a chart -----------------------------------------------------------------------------------------------

function drawMessage() {
  const isSlow = state.loading && performance.now() - loadingSince >= feed.QUIET_MS;
  const hasCandles = Boolean(feed.candles()?.rows.length);
  $('progress').hidden = !isSlow;
  const parts = state.loading ? isSlow && !hasCandles && ['Loading …'] : message();
  $('message').hidden = !parts;
  if (parts) $('message').replaceChildren(...parts);
}

function message() {
  const { failure } = state;
  const again = failure?.isTemporary ? element('p', {}, 'The page tries again by itself.') : '';
  if (failure instanceof api.Offline) {
    return [element('h2', {}, 'The data API does not answer'), element('p', {}, failure.message), again,
      button('Try now', () => { live.retry(); if (state.symbol) feed.reopen(); else location.reload(); }, { class: 'primary' })];
  }
  if (failure?.code === 'unknown_symbol' || failure?.pointers?.includes('/symbol')) {
    return [element('h2', {}, 'Unknown symbol'), element('p', {}, `Nothing is stored of “${state.symbol}”.`), chooser()];
  }
  if (failure?.pointers?.includes('/timeZone')) {
    return [element('h2', {}, 'Unknown time zone'), element('p', {}, `The data API does not know “${zones.label(state.zone)}”.`),
      button('Choose another time zone', () => $('zone').click(), { class: 'primary' })];
  }
  if (failure) {
    return [element('h2', {}, 'The chart cannot be shown'), element('p', {}, failure.message), again, button('Try again', feed.reopen, { class: 'primary' })];
  }
  if (!state.symbol) {
    return [element('h2', {}, 'No trades yet'), element('p', {}, 'As soon as a trade is stored, its symbol is here.'),
      element('p', {}, 'Trades come from the ingestor, or from any program that has the write token.')];
  }
  if (!state.isEmpty) return null;
  const line = feed.line();
  if (line !== null && (feed.isEmpty() || chart.view()?.from < line)) {
    return [element('h2', {}, removed(line)), toMinutes()];
  }
  if (feed.isEmpty()) return [element('h2', {}, 'No trades'), element('p', {}, `${state.symbol} has no trades now: each one that was stored was retracted.`), chooser()];
  const view = chart.view();
  const isMissing = view && coverage.missing(view.from, view.to) !== null;
  return [element('h2', {}, 'No trades in this range'), element('p', {}, isMissing ? `${state.symbol} was not indexed here.` : `${state.symbol} has none here.`),
    button('Show the newest', () => document.dispatchEvent(new CustomEvent('show-newest')), { class: 'primary' })];
}

const toMinutes = () => button('Show 1m candles', () => document.dispatchEvent(new CustomEvent('show-minutes')), { class: 'primary' });
const chooser = () => button('Choose another symbol', () => $('symbol').click(), { class: 'primary' });

// -- where candles end -------------------------------------------------------------------------------------------------

export function removed(line) {
  const { day, month, year, minute } = zones.parts(line, state.zone);
  return `Ticks before ${day} ${month} ${year}${minute === '00:00' ? '' : ` ${minute}`} were removed; candles of 1m and longer remain.`;
}

// Says why there are no older candles, while the first of them is in sight.
export function drawEnd() {
  const [line, view] = [feed.line(), chart.view()];
  const isEnd = line !== null && !state.isEmpty && view?.from < feed.candles().first?.t;
  if (isEnd && $('pruned').hidden) $('pruned').replaceChildren(removed(line), toMinutes());
  $('pruned').hidden = !isEnd;
}
