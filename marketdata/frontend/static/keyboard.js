// Handles the keys of the page. As in TradingView, a letter opens the search for a symbol, and a digit opens the choice of an
// interval. All other commands use Alt, or a key that is neither a letter nor a digit; commands.js lists them.

import { COMMANDS } from './commands.js';
import { $ } from './dom.js';
import * as pickers from './pickers.js';
import { RANGES } from './ranges.js';
import * as toolbar from './toolbar.js';

const BY_CODE = new Map(Object.entries(COMMANDS).filter(([, { code }]) => code).map(([name, { code }]) => [code, name]));

let actions = {};

// `given` has a function for each command that has a code, and for move(step), read(step), zoom(factor), newest, range(name),
// help and leave.
export function start(given) {
  actions = given;
  addEventListener('keydown', onKey);
  $('help').onclick = actions.help;
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

// The command of a key, as a function; null if the key has no command in this place.
function chosen(event, target) {
  const { key } = event;
  if (key === 'Escape') return document.querySelector(':popover-open') ? null : escape; // the browser closes a menu itself
  if (key === '?' && !event.altKey && !target.matches(IS_FIELD)) return actions.help;
  if ($('keyboard').open) return null;
  if (event.altKey) return byAlt(event);
  if (target.matches(IS_FIELD) || target.closest('[popover]')) return null;
  const step = event.shiftKey ? actions.read : actions.move;
  if (key === 'ArrowLeft') return () => step(-1);
  if (key === 'ArrowRight') return () => step(1);
  if (key === '+' || key === '=') return () => actions.zoom(0.8);
  if (key === '-') return () => actions.zoom(1.25);
  if (key === 'End' && !target.closest('.scroller')) return actions.newest; // the key goes to the end of a list
  if (/^\p{L}$/u.test(key)) return () => pickers.openSymbols(key);
  if (/^[0-9]$/.test(key)) return () => pickers.openInterval(key);
  if (key === ',') return () => pickers.openInterval('');
  return key === '/' ? () => pickers.openSymbols('') : null;
}

function byAlt({ code }) {
  const number = /^Digit([1-6])$/.exec(code)?.[1];
  if (number) return () => actions.range(Object.keys(RANGES)[number - 1]);
  return actions[BY_CODE.get(code)] ?? null;
}

function escape() {
  if ($('keyboard').open) $('keyboard').close();
  else if (toolbar.isSheetOpen()) toolbar.openSheet(false);
  else actions.leave();
}
