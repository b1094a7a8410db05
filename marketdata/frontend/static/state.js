// The state of the page: the view, which is also in the page's URL, and the state of the service.

export const state = {
  symbol: null,
  interval: '1h', // the chosen one; a view with many bars shows a coarser one, see feed.js
  zone: 'UTC', // see time_zones.js
  type: 'candles', // see TYPES in address.js
  scale: 'linear', // or 'log' or 'percent'
  isInverted: false,
  isConnected: true, // whether a candle opens at the close of the candle before
  indicators: [], // as indicators.js parses them
  list: 'mine', // what the watchlist shows: 'mine', or an order: 'change', 'volume' or 'newest'
  minSize: null, // the list of trades shows trades of at least this size
  panels: [], // the open ones of 'watchlist' and 'trades'
  user: null,
  auth: null,
  symbols: [],
  coverage: [],
  loading: true,
  isEmpty: false, // whether no candle is visible
  failure: null, // why the chart could not be read
  retrying: 0, // requests that have failed and are sent again
  live: { state: 'connecting', retryAt: 0 },
  loggedOut: false,
  newest: null, // the time of the newest trade
  price: null, // its price, a decimal
  isCatchingUp: false, // whether the candles may lack changes from the time without a connection
  clockOffset: 0, // the service's clock minus this browser's, ms
};

const listeners = [];

// Calls `listener` with the set of the changed names.
export const subscribe = (listener) => listeners.push(listener);

export function update(changes) {
  const changed = new Set(Object.keys(changes).filter((name) => state[name] !== changes[name]));
  if (!changed.size) return;
  Object.assign(state, changes);
  for (const listener of listeners) listener(changed);
}

export const now = () => Date.now() + state.clockOffset;

// The user's choices are stored in the browser, so that they survive a reload. A browser may refuse to store them.
export function remembered(name) {
  try { return localStorage.getItem(`chart-${name}`); } catch { return null; }
}

export function remember(name, value) {
  try { localStorage.setItem(`chart-${name}`, value); } catch { /* the choice is lost with the page */ }
}

// The symbol that is shown without a choice: the one that was chosen last or, without it, the one with the newest trade.
export function firstSymbol(symbols) {
  const newest = symbols.reduce((found, each) => (found && found.last >= each.last ? found : each), null);
  return (symbols.find(({ symbol }) => symbol === remembered('symbol')) ?? newest)?.symbol ?? null;
}
