// The list of symbols, the newest trade first, and the search in it.

import * as api from './api.js';
import * as feed from './feed.js';
import { state, update } from './state.js';

const SOON_MS = 1000; // new symbols within this time are read together
let reading = null; // the promise of the running read
let timer = 0;

// Reads the list. A failure is shown only without a symbol: a chart does not need the list.
export function read() {
  reading ??= readOnce().finally(() => { reading = null; });
  return reading;
}

async function readOnce() {
  try {
    const found = await api.symbols({ onFailure: (failure) => { if (!state.symbol) feed.fail(failure); } });
    update({ symbols: found.sort((one, other) => other.last - one.last), ...(!state.symbol && { failure: null }) });
  } catch (failure) {
    if (!state.symbol || failure instanceof api.LoggedOut) feed.fail(failure);
  }
}

// Called for each new symbol. A read that has begun before may miss it.
export function readSoon() {
  timer ||= setTimeout(async () => {
    timer = 0;
    await reading;
    read();
  }, SOON_MS);
}

export const isDemo = (symbol) => symbol?.startsWith('DEMO:') ?? false;

// The symbols with what the search compares, in lower case. It is made once for each list.
let prepared = { symbols: null, entries: [] };

function entries() {
  if (prepared.symbols !== state.symbols) prepared = { symbols: state.symbols, entries: state.symbols.map((each) => ({ each, ...compared(each) })) };
  return prepared.entries;
}

function compared({ symbol, aliases }) {
  const [whole, ...others] = [symbol, ...aliases].map((name) => name.toLowerCase());
  const chain = whole.slice(0, whole.indexOf(':') + 1);
  const name = whole.slice(chain.length);
  return { whole, chain, exact: [whole, name, ...others], starts: [name, ...name.split('-'), ...others] };
}

// The symbols that match every typed word, the best match first. A word is a part of the symbol or of an alias, a chain like
// `eth:`, or a token.
export function matching(typed) {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const byRank = [[], [], [], []]; // each with the newest trade first, like the list
  for (const entry of entries()) byRank[Math.max(0, ...words.map((word) => rank(entry, word)))].push(entry.each);
  return byRank.slice(0, NO_MATCH).flat();
}

const NO_MATCH = 3;

// How well a word matches: 0 is the exact name, 1 the start of a name or a token, 2 any part.
function rank({ whole, chain, exact, starts }, word) {
  if (exact.includes(word)) return 0;
  if (word.endsWith(':')) return word === chain ? 1 : NO_MATCH;
  if (starts.some((start) => start.startsWith(word)) || (word.includes(':') && whole.startsWith(word))) return 1;
  return exact.some((known) => known.includes(word)) ? 2 : NO_MATCH;
}
