// The panels beside the chart: the watchlist and the list of trades. Each one is loaded when it is first opened.

import { PANELS } from './address.js';
import { $ } from './dom.js';
import { state, subscribe } from './state.js';

const LOAD = { watchlist: () => import('./watchlist.js'), trades: () => import('./trades.js') };
const requested = new Set();

// The modules of the panels that were opened, by name.
export const loaded = {};

// `handlers` has the handlers of each panel by its name, see its start().
export function start(handlers) {
  subscribe((changed) => { if (changed.has('panels')) PANELS.forEach((name) => show(name, handlers[name])); });
}

async function show(name, handlers) {
  const isOpen = state.panels.includes(name);
  $(name).hidden = !isOpen;
  if (!isOpen || requested.has(name)) return;
  requested.add(name);
  try {
    const panel = await LOAD[name]();
    panel.start(handlers);
    loaded[name] = panel;
  } catch {
    requested.delete(name); // opening it again tries again
  }
}
