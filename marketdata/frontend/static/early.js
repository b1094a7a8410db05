// Sends the page's first requests while its other modules are still loading. api.request() takes their responses.

import * as address from './address.js';
import * as api from './api.js';
import { drawnRange, forRange } from './drawn_interval.js';
import { firstView } from './first_view.js';
import { firstSymbol } from './state.js';

async function send() {
  const { symbol: given, interval: chosen, zone, ...range } = address.completed(location.search);
  const listed = api.sendEarly(api.SYMBOLS);
  const symbol = given ?? firstSymbol((await listed).content.symbols);
  if (!symbol) return;
  const interval = forRange(range, chosen, innerWidth);
  const read = (query) => api.sendEarly(api.chartPath({ symbol, interval, timeZone: zone, ...query }));
  await firstView(read, drawnRange(range, chosen, interval), interval, true);
}

send().catch(() => { /* the page handles it */ });
