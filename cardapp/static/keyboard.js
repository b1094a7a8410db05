// Binds the shortcuts of GET /api/keyboard to actions of the page, and shows the overlay that lists the shortcuts.

import * as actions from './actions.js';
import * as annotations from './annotations.js';
import * as columns from './columns.js';
import { $, button, element } from './dom.js';
import * as drawing from './drawing.js';
import * as explain from './explain.js';
import { emptyField } from './foot.js';
import * as map from './map.js';
import * as over from './over.js';
import * as program from './program.js';
import { failedHere, state, stepOf } from './state.js';
import * as timeline from './timeline.js';

const CODES = { Backtick: 'Backquote' };
const ACTIONS = {
  sync: () => actions.sync(),
  reset: () => actions.reset(),
  redraw: () => document.dispatchEvent(new CustomEvent('redraw-editor')),
  previous: () => actions.moveOn(-1),
  next: () => actions.moveOn(1),
  previous_stop: () => actions.moveStop(-1),
  next_stop: () => actions.moveStop(1),
  coarser: () => actions.focusBy(-1),
  finer: () => actions.focusBy(1),
  focus: (shortcut) => actions.focus(shortcut.level),
  allocator: () => actions.toggleMemory(),
  annotations: () => annotations.toggleLayer(),
  explain: () => explain.toggle(),
  control: () => actions.toggleControl(),
  next_line: () => program.move('next'),
  step_into: () => program.move('step'),
  finish_function: () => program.move('finish'),
  go_on: () => program.goOn(),
  approve: () => approve(),
  events: () => timeline.toggle(),
  search: () => { columns.showOutline(); $('search').focus(); },
  help: () => toggleOverlay(),
  dismiss: () => dismissal()(),
};
const MOVES = new Set(['previous', 'next', 'previous_stop', 'next_stop', 'coarser', 'finer']);
// The shortcuts that the browser gets while no view shows the program.
const OF_PROGRAM = new Set(['next_line', 'step_into', 'finish_function', 'go_on']);
// The shortcuts that work while the editor has the keyboard.
const ALWAYS = new Set(['control', 'redraw']);

// The shortcuts that are signs, not letters. No value begins with them.
const SIGNS = new Set(['/', '?']);

// Elements that use a key themselves. While one of them has the focus, the key is not a shortcut. Arrows scroll focused
// code.
const TAKES_ENTER = 'button, a, summary, [role=tab], [role=treeitem]';
const TAKES_ARROWS = '[role=tree], [role=tab], [role=separator], .source:focus-visible';
const OWN_KEYS = {
  Enter: TAKES_ENTER, ArrowLeft: TAKES_ARROWS, ArrowRight: TAKES_ARROWS, ArrowUp: TAKES_ARROWS, ArrowDown: TAKES_ARROWS,
};

// Controls that a mouse click focuses. Afterwards the focus is on none of them, so that keys still work as on the sheet.
const CLICKED = 'button, a, summary, [type=checkbox], [role=tab], [role=treeitem], [role=separator]';
const KEEPS_FOCUS = '#act, dialog *';

export function start() {
  addEventListener('keydown', onKey, true);
  addEventListener('click', onClick);
  $('help').onclick = toggleOverlay;
}

function onClick(event) {
  const focused = document.activeElement;
  const isByMouse = event.detail > 0;
  if (isByMouse && focused.matches(CLICKED) && !focused.matches(KEEPS_FOCUS)) focused.blur();
}

function onKey(event) {
  if (event.isComposing || drawing.takesKey(event)) return;
  const typing = event.composedPath()[0];
  const isElement = typing instanceof Element;
  const inEditor = isElement && typing.closest('#editor') && typing.localName === 'textarea';
  const inField = isElement && /^(input|textarea|select)$/.test(typing.localName) && !inEditor && typing.type !== 'checkbox';
  if (!inEditor && !inField && startsPrediction(event)) return;
  const shortcut = state.keyboard.shortcuts.find(({ scope, keys }) => scope === 'page' && keys.some((each) => matches(event, each)));
  if (!shortcut || (inEditor && state.viewer.viewer.editor.control && !ALWAYS.has(shortcut.action))) return;
  const plain = !event.ctrlKey && !event.altKey && !event.metaKey && !/^F\d+$/.test(event.key);
  if ((inField || inEditor) && plain) return;
  if (plain && isElement && event.key in OWN_KEYS && typing.closest(OWN_KEYS[event.key])) return;
  if (shortcut.action === 'dismiss' && !dismissal()) return;
  if (OF_PROGRAM.has(shortcut.action) && !program.isShown()) return;
  const run = ACTIONS[shortcut.action];
  if (!run || isCovered(shortcut)) return;
  event.preventDefault();
  event.stopPropagation();
  if (!event.repeat || MOVES.has(shortcut.action)) run(shortcut); // only moves are repeated while a key is held down
}

const openDialog = () => document.querySelector('dialog[open]');

// Whether a dialog covers the view on which the shortcut acts.
function isCovered({ action }) {
  const dialog = openDialog();
  return dialog !== null && !(dialog === $('keyboard') && ['help', 'dismiss'].includes(action));
}

// A character that is typed on the sheet goes into the first empty field, except the signs that are shortcuts. The browser
// types it into the element that has the focus after this event.
function startsPrediction(event) {
  const isCharacter = [...event.key].length === 1 && event.key !== ' ' && !event.ctrlKey && !event.altKey && !event.metaKey;
  if (!isCharacter || SIGNS.has(event.key) || openDialog() || over.isOpen()) return false;
  const field = emptyField();
  field?.focus({ preventScroll: true });
  return Boolean(field);
}

// Whether an event matches keys like `Ctrl+Backtick`, `Alt+6` or `Shift+ArrowUp`. A printable key is named by its place
// on a US keyboard.
export function matches(event, keys) {
  const parts = keys.split('+');
  const name = parts.pop();
  const shift = name === '?' ? event.shiftKey : parts.includes('Shift');
  if (event.ctrlKey !== parts.includes('Ctrl') || event.altKey !== parts.includes('Alt')) return false;
  if (event.shiftKey !== shift || event.metaKey) return false;
  if (event.key === name) return true;
  const code = CODES[name] || (/^[0-9]$/.test(name) ? `Digit${name}` : /^[A-Z]$/.test(name) ? `Key${name}` : null);
  return code !== null && event.code === code;
}

// A letter that is typed while the results or the events cover the sheet does nothing.
function approve() {
  const step = stepOf(state.navigation.key);
  if (step && !over.isOpen()) actions.approve(step);
}

// The view that Escape closes: the uppermost one over the worksheet; null if there is none.
function dismissal() {
  if ($('keyboard').open) return () => $('keyboard').close();
  const uppermost = [columns, map, over].find((each) => each.isOpen());
  if (uppermost) return uppermost.close;
  return state.failure || failedHere() ? actions.dismiss : null;
}

function toggleOverlay() {
  const dialog = $('keyboard');
  if (dialog.open) return dialog.close();
  dialog.replaceChildren(
    element('div', { class: 'panel-head' }, element('h2', {}, 'Keyboard'), element('span', { class: 'space' }),
      button('×', () => dialog.close(), { class: 'icon', 'aria-label': 'Close' })),
    element('p', { class: 'lead' }, FOOT_KEYS),
    element('div', { class: 'two' },
      element('section', {}, element('h3', {}, 'On the page'), shortcuts('page')),
      element('section', {}, element('h3', {}, 'In the editor'), shortcuts('editor'), element('p', { class: 'quiet' }, EDITOR_KEYS))));
  dialog.showModal();
}

const FOOT_KEYS = 'A value that you type on the sheet goes into the first empty field below it. Enter predicts, the next Enter runs '
  + 'the program to the stop, and the one after it goes on. Escape leaves the field.';
const EDITOR_KEYS = 'While the editor has the keyboard, every key goes to Neovim, except F8, which takes the keyboard back, and '
  + 'Ctrl+`, which draws the editor again. Shift and dragging selects text in the editor’s picture; Ctrl+Shift+C copies it.';

function shortcuts(scope) {
  const rows = state.keyboard.shortcuts.filter((each) => each.scope === scope).map(({ keys, description }) => element('tr', {},
    element('td', {}, ...keys.flatMap((each, at) => [at ? ' or ' : '', chord(each)])), element('td', {}, description)));
  return element('table', {}, element('tbody', {}, ...rows));
}

function chord(keys) {
  const label = (part) => (part === 'Backtick' ? '`' : part.replace('Arrow', '').replace('Enter', '⏎'));
  return element('span', {}, ...keys.split('+').flatMap((part, at) => [at ? '+' : '', element('kbd', {}, label(part))]));
}
