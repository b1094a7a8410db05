// The newest trade of the shown symbol: its time and its price, in state.newest and state.price. A live subscription to the
// symbol's summary tells it after each connect and each change; the live ticks tell it at once.

import * as api from './api.js';
import * as feed from './feed.js';
import * as live from './live.js';
import { state, subscribe, update } from './state.js';

let seq = -Infinity; // of the known trade
let isDoubtful = true; // whether the known trade may be another one than the API's: then the next summary decides

export function start() {
  feed.onCandles(() => live.followSummaries('chart', feed.symbol() ? [feed.symbol()] : []));
  subscribe((changed) => {
    if (changed.has('symbol')) [seq, isDoubtful] = [-Infinity, true];
    if (changed.has('live') && state.live.state !== 'open') isDoubtful = true;
  });
}

// Called when some messages about trades are missing. A summary is sent only if it has changed, so it is read.
export async function doubt() {
  isDoubtful = true;
  const { symbol } = state;
  const found = symbol && await api.summary({ symbol }, { isOnce: true }).catch(() => null); // each connect tells it again
  if (found) takeSummaries(found.items);
}

export function takeTick({ symbol, ts, price, seq: place, retracted }) {
  if (symbol !== state.symbol) return;
  if (retracted) return doubt();
  const time = Date.parse(ts);
  if (time < state.newest || (time === state.newest && place < seq)) return;
  [seq, isDoubtful] = [place, false];
  update({ newest: time, price });
}

export function takeSummaries(items) {
  const found = items.find(({ symbol }) => symbol === state.symbol);
  if (!found || (!isDoubtful && found.ts < state.newest)) return;
  if (found.ts !== state.newest) seq = -Infinity;
  update({ newest: found.ts, price: found.last });
}
