// The times that the ingestor has read. Other times are hatched, so that they do not look like times without trades.

import * as api from './api.js';
import * as chart from './chart.js';
import { $ } from './dom.js';
import { now, state, subscribe, update } from './state.js';

const EVERY_MS = 10_000;
const LATE_MS = 60_000; // the ingestor is late if it lags more than this
const KNOWN = new Set(['indexed', 'no_trades']);

export function start() {
  setInterval(() => { if (!document.hidden && state.symbol && !state.loggedOut) read(); }, EVERY_MS);
  subscribe((changed) => { if (changed.has('coverage')) paint(); });
}

let reading = null; // {symbol, abort} while the coverage of a symbol is being read

export async function read() {
  const { symbol } = state;
  if (reading?.symbol === symbol) return;
  reading?.abort.abort();
  const mine = reading = { symbol, abort: new AbortController() };
  try {
    const ranges = await api.coverage(symbol, { signal: mine.abort.signal });
    if (mine === reading) update({ coverage: ranges });
  } catch (failure) {
    if (failure instanceof api.LoggedOut) update({ loggedOut: true });
    else if (mine === reading && failure instanceof api.Refusal) update({ coverage: [] });
  } finally {
    if (mine === reading) reading = null;
  }
}

// Milliseconds since the newest indexed time; null if no coverage was ever recorded.
export function lag() {
  const ends = state.coverage.filter((range) => KNOWN.has(range.state)).map((range) => range.to);
  return ends.length ? now() - Math.max(...ends) : null;
}

export const isLate = () => (lag() ?? 0) > LATE_MS;

export function paint() {
  chart.paintGaps(gaps(state.coverage, now()));
  drawKey();
}

// Shows the key of the hatching while hatching is visible.
export function drawKey() {
  const view = chart.view();
  $('hatched-key').hidden = !view || missing(view.from, view.to) === null;
}

// Says why the times from `from` until `to` may lack trades; null if all of these times were read.
export function missing(from, to) {
  const found = gaps(state.coverage, now()).filter((gap) => gap.from < to && gap.to > from);
  return (found.find(({ isFailed }) => isFailed) ?? found[0])?.label ?? null;
}

const gap = (from, to, isFailed) => ({ from, to, isFailed, label: isFailed ? 'indexing failed' : 'not indexed' });

// If there is no coverage at all, there are no gaps, because the program that writes this symbol records no coverage.
function gaps(ranges, until) {
  if (!ranges.length) return [];
  const found = [];
  let end = -Infinity;
  for (const { from, to, state: kind } of ranges) {
    if (from > end) found.push(gap(end, from, false));
    if (!KNOWN.has(kind)) found.push(gap(from, to, true));
    end = to;
  }
  const start = Math.max(end, state.newest ?? 0);
  if (until - end > LATE_MS && until > start) found.push(gap(start, until, false));
  return found;
}
