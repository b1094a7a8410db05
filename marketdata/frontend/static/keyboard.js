// The keys of the page, and the table that lists them. Letters open the search for a symbol, digits the interval, as in
// TradingView; everything else has Alt or is no character.

import { $, button, element } from './dom.js';
import * as pickers from './pickers.js';
import * as toolbar from './toolbar.js';

// [keys, what they do]
const KEYS = [
  [['A', '…', 'Z'], 'Search a symbol by its letters'],
  [['1', '…', '9'], 'Choose an interval: 5, 1h, 1d; a plain number is minutes'],
  [[','], 'Choose an interval by its letter: D, W, M'],
  [['←', '→'], 'Move the chart'],
  [['Shift+←', 'Shift+→'], 'Read the candle before or after'],
  [['+', '−'], 'Zoom'],
  [['End'], 'The newest candles'],
  [['Alt+R'], 'The newest candles at their first size'],
  [['Alt+L'], 'Logarithmic prices'],
  [['Alt+T'], 'List of trades'],
  [['Alt+C'], 'Save the candles in sight as CSV'],
  [['Alt+S'], 'Save the chart as a picture'],
  [['Esc'], 'Close what is open'],
  [['?'], 'This table'],
];

let actions = {};

export function start(given) {
  actions = given;
  addEventListener('keydown', onKey);
  $('help').onclick = toggleOverlay;
}

const IS_FIELD = 'input, select, textarea, [contenteditable]';

function onKey(event) {
  if (event.isComposing || event.ctrlKey || event.metaKey || document.querySelector('dialog[open]:not(#keyboard)')) return;
  const target = event.target instanceof Element ? event.target : document.body;
  const run = chosen(event, target);
  if (!run) return;
  event.preventDefault();
  run();
}

function chosen(event, target) {
  const { key } = event;
  if (key === 'Escape') return escape;
  if (key === '?' && !event.altKey && !target.matches(IS_FIELD)) return toggleOverlay;
  if ($('keyboard').open || target.matches(IS_FIELD)) return null;
  if (event.altKey) return { KeyR: actions.reset, KeyL: actions.log, KeyT: actions.trades, KeyC: actions.csv, KeyS: actions.png }[event.code] ?? null;
  const step = event.shiftKey ? actions.read : actions.move;
  // A toolbar's own controls and lists that scroll keep their arrows.
  if (key === 'ArrowLeft' && !target.closest('.scroller')) return () => step(-1);
  if (key === 'ArrowRight' && !target.closest('.scroller')) return () => step(1);
  if (key === '+' || key === '=') return () => actions.zoom(0.8);
  if (key === '-') return () => actions.zoom(1.25);
  if (key === 'End' && !target.closest('.scroller')) return actions.newest;
  if (/^\p{L}$/u.test(key)) return () => pickers.openSymbols(key);
  if (/^[0-9]$/.test(key)) return () => pickers.openInterval(key);
  if (key === ',') return () => pickers.openInterval('');
  return key === '/' ? () => pickers.openSymbols('') : null;
}

function escape() {
  if ($('keyboard').open) $('keyboard').close();
  else if (toolbar.isSheetOpen()) toolbar.openSheet(false);
  else actions.leave();
}

function toggleOverlay() {
  const dialog = $('keyboard');
  if (dialog.open) return dialog.close();
  const rows = KEYS.map(([keys, description]) => element('tr', {}, element('td', {}, ...keys.flatMap((each, at) => [at ? ' ' : '', chord(each)])), element('td', {}, description)));
  dialog.replaceChildren(
    element('div', { class: 'panel-head' }, element('h2', {}, 'Keyboard'), element('span', { class: 'space' }), button('×', () => dialog.close(), { class: 'icon', 'aria-label': 'Close' })),
    element('table', {}, element('tbody', {}, ...rows)));
  return dialog.showModal();
}

function chord(keys) {
  if (keys === '…') return keys;
  const parts = keys.length > 1 ? keys.split('+') : [keys];
  return element('span', {}, ...parts.flatMap((part, at) => [at ? '+' : '', element('kbd', {}, part)]));
}
