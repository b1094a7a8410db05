// Receives the candles of the view and the ticks of its symbol over the WebSocket /api/v1/live. Reconnects by itself, unless
// the login has expired.

import { state } from './state.js';

const RENEW = 4000; // the frontend closes with this code so that a proxy checks the login again
const SILENCE_MS = 35_000; // more than two heartbeats of the server
const CHECK_MS = 1000;
const MAX_SUMMARIES = 200; // the server's limit
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
let socket = null; // null while no connection is open or being opened
let heardAt = 0; // the time of the last message
let failures = 0;
let timer = 0;
let wanted = []; // the subscriptions
const summarised = new Map(); // the symbols whose summaries are received, by who needs them
let handlers = null;

// `given` has three handlers: onState('open' | 'connecting' | 'offline', retryAt); onMessage(message); and onOpen(), which is
// called after each connect.
export function start(given) {
  handlers = given;
  addEventListener('online', reconnect);
  addEventListener('offline', () => handlers.onState(socket?.readyState === WebSocket.OPEN ? 'open' : 'offline', Date.now()));
  setInterval(() => { if (socket && Date.now() - heardAt > SILENCE_MS) lose(socket); }, CHECK_MS);
  connect();
}

function connect() {
  clearTimeout(timer);
  if (state.loggedOut) return;
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const made = new WebSocket(`${scheme}://${location.host}/api/v1/live`, 'marketdata-live.v1');
  socket = made;
  heardAt = Date.now();
  setTimeout(() => { if (made === socket && made.readyState !== WebSocket.OPEN) handlers.onState('connecting', 0); }, CHECK_MS);
  made.onopen = () => {
    failures = 0;
    handlers.onState('open', 0);
    handlers.onOpen();
  };
  made.onmessage = (message) => {
    heardAt = Date.now();
    handlers.onMessage(JSON.parse(message.data));
  };
  made.onclose = ({ code }) => {
    if (code === RENEW && made === socket) connect();
    else lose(made);
  };
}

function lose(lost) {
  if (lost !== socket) return;
  socket = null;
  lost.close();
  const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
  failures += 1;
  handlers.onState('offline', Date.now() + wait);
  timer = setTimeout(connect, wait);
}

// Milliseconds since the last message.
export const silence = () => Date.now() - heardAt;

// Connects anew when the browser has a network again: the connection may be dead.
function reconnect() {
  const old = socket;
  socket = null;
  old?.close();
  handlers.onState('connecting', 0);
  connect();
}

// Reconnects now, without the rest of the wait.
export function retry() {
  if (handlers && !socket) connect();
}

const send = (op, subscription) => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ op, ...subscription }));
};

// Sets the subscriptions, [{symbol, interval, timeZone?, since?}]. With `isAnew`, candles that are already subscribed are
// subscribed again, so that `since` takes effect.
export function follow(subscriptions, isAnew = false) {
  const key = ({ symbol, interval, timeZone }) => JSON.stringify([symbol, interval, timeZone]);
  const kept = new Set(subscriptions.map(key));
  const had = new Set(wanted.map(key));
  for (const { since, ...each } of wanted) if (!kept.has(key(each))) send('unsubscribe', each);
  for (const each of subscriptions) if (!had.has(key(each)) || (isAnew && each.interval !== 'ticks')) send('subscribe', each);
  wanted = subscriptions;
}

// Follow the summaries of these symbols for one part of the page, named by `who`, in place of those it followed before.
export function followSummaries(who, symbols) {
  const before = allSummarised();
  summarised.set(who, symbols);
  const wantedOnes = allSummarised();
  if (wantedOnes.join() === before.join()) return;
  if (wantedOnes.length) send('subscribe', { interval: 'summary', symbols: wantedOnes });
  else send('unsubscribe', { interval: 'summary' });
}

// Beyond the limit, the last symbols of the watchlist get no messages; they are read each minute.
const allSummarised = () => [...new Set(['chart', 'watchlist'].flatMap((who) => summarised.get(who) ?? []))].slice(0, MAX_SUMMARIES);

// Subscribes again after a connect. The server sends the candles from `since` on at once.
export function resume(since) {
  const symbols = allSummarised();
  if (symbols.length) send('subscribe', { interval: 'summary', symbols });
  for (const each of wanted) send('subscribe', each.interval === 'ticks' || since === null ? each : { ...each, since });
}
