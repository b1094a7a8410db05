// The list of trades, newest first. A trade that a reorganisation removed stays in the list and is struck through.

import * as api from './api.js';
import * as decimals from './decimals.js';
import { $, element } from './dom.js';
import { state, subscribe, update } from './state.js';
import * as zones from './time_zones.js';

const MAX_TRADES = 100;

let trades = []; // newest first
let waiting = false;

export function start() {
  subscribe((changed) => {
    if (changed.has('symbol')) {
      trades = [];
      draw();
      read();
    } else if (changed.has('panels') && isOpen()) read();
    else if (changed.has('zone')) draw();
  });
}

const isOpen = () => state.panels.includes('trades');

export async function read() {
  const { symbol } = state;
  if (!isOpen() || !symbol) return;
  const before = new Set(trades);
  try {
    const found = await api.ticks(symbol, MAX_TRADES);
    if (symbol !== state.symbol) return;
    // A tick that arrived by WebSocket during the request is newer than the response, so it is kept.
    const during = new Map(trades.filter((each) => !before.has(each)).map((each) => [each.id, each]));
    trades = [...during.values(), ...found.filter(({ id }) => !during.has(id))].sort(newestFirst).slice(0, MAX_TRADES);
    draw();
  } catch { /* the chart shows the failure */ }
}

const newestFirst = (one, other) => Date.parse(other.ts) - Date.parse(one.ts) || other.seq - one.seq;

// Adds a tick from the WebSocket, or marks a trade as removed.
export function take(tick) {
  if (tick.symbol !== state.symbol) return;
  if (tick.retracted) {
    trades = trades.map((each) => (each.id === tick.id ? { ...each, retracted: true } : each));
  } else {
    const time = Date.parse(tick.ts);
    if (time > (state.newest ?? 0)) update({ newest: time });
    trades = [tick, ...trades.filter(({ id }) => id !== tick.id)].sort(newestFirst).slice(0, MAX_TRADES);
  }
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function draw() {
  if (!isOpen()) return;
  $('trade-rows').replaceChildren(...trades.map(({ ts, price, size, side, retracted }) => {
    const { date, second } = zones.parts(Date.parse(ts), state.zone);
    return element('tr', { class: `${side ?? ''}${retracted ? ' retracted' : ''}`, title: retracted ? 'Removed by a reorganisation of the chain' : null },
      element('td', { title: `${date} ${second}${side ? `, ${side}` : ''}` }, second), element('td', { title: price }, decimals.split(price)[0]),
      element('td', { title: size }, decimals.split(size)[0]));
  }));
}
