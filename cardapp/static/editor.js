// The editor panel: draws the session's Neovim from its UI stream. `viewer.editor.sync` attaches the panel to the stream,
// `viewer.editor.control` gives the panel the keyboard.

import { granting, redraw, refresh, takeControl, toggleControl, view } from './actions.js';
import { Notice } from './api.js';
import { $, button, copyButton, element, fill, sentence } from './dom.js';
import { Painter } from './editor_canvas.js';
import { Grid } from './editor_grid.js';
import { bindComposition, Mouse, notation, typed } from './editor_input.js';
import { PictureSize } from './editor_size.js';
import { state, subscribe, update } from './state.js';
import * as timing from './timing.js';

const RETRY_MS = [200, 400, 800, 1600, 3000];
const MIRROR_MS = 400; // the text for screen readers is this much behind the picture
const MAX_PASTE = 1_000_000; // characters; the service's limit
let socket = null;
let failures = 0;
let retry = 0;
let grid = new Grid();
let painter, size, mouse, canvas, field, overlay, mirror, area, controlButton, stateText, scaleText;
let fontSize = Number(localStorage.getItem('editor-font')) || 13;
let lastPaint = 0;
let scheduled = false;
let mirrorTimer = 0;

export function start() {
  canvas = element('canvas', { 'aria-hidden': 'true' });
  field = element('textarea', {
    class: 'hidden-input', 'aria-label': 'Keys for the editor', tabindex: -1,
    autocapitalize: 'off', autocomplete: 'off', autocorrect: 'off', spellcheck: 'false',
  });
  mirror = element('pre', { class: 'unseen', role: 'group', 'aria-label': 'Text of the editor', tabindex: -1 });
  overlay = element('div', { class: 'overlay', role: 'status', onclick: keepKeys });
  area = element('div', { class: 'canvas-area' }, canvas, field, mirror, overlay);
  $('editor').append(head(), area);
  painter = new Painter(canvas, grid, () => size.place());
  const isFit = () => state.viewer.viewer.editor.fit;
  size = new PictureSize({ area, painter, send, isFit, fit, onPlace: onPlaced });
  setFont(fontSize);
  document.fonts.load(`13px "Noto Sans Mono"`).then(() => setFont(fontSize));
  document.addEventListener('redraw-editor', fit);
  bindKeys();
  mouse = new Mouse({ area, field, painter, hasControl, takeControl, send });
  subscribe((changed) => {
    if (changed.has('viewer') || changed.has('session') || changed.has('control')) follow();
  });
  follow();
}

function head() {
  controlButton = button('Keyboard F8', toggleControl,
    { 'aria-pressed': 'false', title: 'Give the keyboard to the editor, or take it back (F8)' });
  stateText = element('span', { class: 'quiet' });
  scaleText = element('span', { class: 'scaled' });
  const attached = element('input', { type: 'checkbox', id: 'editor-sync', onchange: () => flag({ sync: attached.checked }) });
  const expand = () => flag({ expanded: !state.viewer.viewer.editor.expanded });
  return element('div', { class: 'panel-head' },
    element('h2', {}, 'Editor'), stateText, scaleText, element('span', { class: 'space' }), controlButton,
    button('A−', () => font(-1), { class: 'icon', 'aria-label': 'A−, smaller type in the editor' }),
    button('A+', () => font(1), { class: 'icon', 'aria-label': 'A+, larger type in the editor' }),
    button('Fit', fit, { title: 'Give the editor as many lines and columns as the panel has room for' }),
    element('label', { class: 'switch', title: 'Attach the panel to the editor' }, attached, ' Live'),
    button('⤢', expand, { class: 'icon', id: 'editor-expand', 'aria-label': 'Wide editor', 'aria-pressed': 'false' }),
    button('×', () => flag({ visible: false }), { class: 'icon', 'aria-label': 'Hide the editor' }));
}

const flag = (flags) => view({ viewer: { editor: flags } });

// -- the stream ----------------------------------------------------------------------------------------------------

let session = null;
let controlled = false;

function follow() {
  const { editor } = state.viewer.viewer;
  const wanted = editor.visible && editor.sync;
  $('editor-sync').checked = editor.sync;
  controlButton.setAttribute('aria-pressed', String(editor.control));
  $('editor').classList.toggle('control', editor.control);
  $('editor-expand').setAttribute('aria-pressed', String(editor.expanded));
  const isFit = area.classList.contains('fit');
  if (area.classList.toggle('fit', editor.fit) !== isFit) size.changed();
  const binding = JSON.stringify(state.session.binding);
  if (binding !== session) {
    session = binding;
    failures = 0;
    if (wanted && !socket) open();
  }
  if (wanted && !socket && !retry) open();
  if (!wanted) close();
  if (editor.control !== controlled) { // other changes must not move the focus out of a field in which somebody types
    controlled = editor.control;
    queueMicrotask(() => setFocus(controlled)); // later, because the panel must be visible first
  }
}

function open() {
  clearTimeout(retry);
  retry = 0;
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const opened = (socket = new WebSocket(`${scheme}://${location.host}/api/editor-ui`, 'card-editor-ui.v1'));
  let reason = null;
  opened.onmessage = (message) => {
    const at = performance.now();
    const frame = JSON.parse(message.data);
    if (frame.type === 'hello') begin();
    else if (frame.type === 'terminal') size.setTerminal(frame.attached);
    else if (frame.type === 'redraw') draw(frame, at);
    else if (frame.type === 'bye') reason = frame.reason;
  };
  opened.onclose = () => {
    if (socket !== opened) return;
    socket = null;
    failures += 1;
    say(reason || (state.session.available ? 'The editor is disconnected.' : ''));
    if (reason && state.session.available) refresh(); // the session may have ended too
    retry = setTimeout(() => { retry = 0; follow(); }, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
  };
}

function close() {
  clearTimeout(retry);
  retry = 0;
  const closing = socket;
  socket = null;
  closing?.close();
  say(state.viewer.viewer.editor.sync ? '' : 'Not attached: this is the last picture.');
}

function begin() {
  failures = 0;
  if (!state.session.available) refresh();
  grid = painter.grid = new Grid();
  painter.selection = null;
  size.begin();
  say(null);
}

function draw(frame, at) {
  grid.apply(frame.events);
  send({ type: 'ack', seq: frame.seq });
  timing.frame(at);
  if (at - lastPaint > 6) {
    paint();
    requestAnimationFrame(timing.painted);
  } else if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; paint(); timing.painted(); });
  }
  if (!mirrorTimer) mirrorTimer = setTimeout(() => { mirrorTimer = 0; mirror.textContent = grid.text(); }, MIRROR_MS);
}

function paint() {
  lastPaint = performance.now();
  painter.paint();
  if (size.waits) size.show();
  placeField();
}

function send(message) {
  if (granting && message.type !== 'ack') granting.then(() => send(message));
  else if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

const NO_SESSION = 'The worksheet works without one. A session adds this editor, the debugger and the memory.';
let said = '';

// Show in the overlay the `reason` why the picture is not live; null hides the overlay. Without a session the overlay
// says how to start one. An unchanged overlay is not drawn again, because its buttons would lose the focus.
function say(reason) {
  area.classList.toggle('detached', reason !== null);
  overlay.hidden = reason === null;
  const { available, start_command: command } = state.session;
  const { sync } = state.viewer.viewer.editor;
  const now = JSON.stringify([reason, available, command, sync, controlled]);
  if (reason === null || now === said) return;
  said = now;
  fill(overlay,
    element('p', {}, element('b', {}, available ? 'Editor disconnected' : 'No session')),
    element('p', {}, available ? sentence(reason || 'trying again') : NO_SESSION),
    controlled ? element('p', {}, 'Keys are lost until the editor is connected again.') : null,
    available ? null : element('p', {}, 'Start one in a terminal: ', copyButton(command)),
    sync ? null : button('Attach', () => flag({ sync: true }), { class: 'primary' }));
}

// -- keys ----------------------------------------------------------------------------------------------------------

function hasControl() {
  return state.viewer.viewer.editor.control && socket?.readyState === WebSocket.OPEN;
}

function setFocus(wanted) {
  if (wanted && document.activeElement !== field && document.hasFocus()) field.focus({ preventScroll: true });
  if (!wanted && document.activeElement === field) field.blur();
}

// Keys after a click into an editor that is not live do nothing: they are neither an answer nor shortcuts of the page.
function keepKeys(event) {
  if (!event.target.closest('button')) field.focus({ preventScroll: true });
}

function bindKeys() {
  field.addEventListener('keydown', onKey);
  bindComposition(field, (text) => { if (hasControl()) send({ type: 'input', text: typed(text) }); });
  field.addEventListener('paste', onPaste);
  for (const name of ['focus', 'blur']) field.addEventListener(name, onFocusChange);
}

function onKey(event) {
  if (!hasControl() || event.defaultPrevented) return;
  const isChord = event.ctrlKey && event.shiftKey;
  if (isChord && event.code === 'KeyC' && painter.selection) {
    event.preventDefault();
    mouse.copy();
    return;
  }
  if ((isChord && event.code === 'KeyV') || (event.shiftKey && event.key === 'Insert')) return; // the paste event follows
  const keys = notation(event);
  if (keys === null) return;
  event.preventDefault();
  timing.key(event.timeStamp);
  send({ type: 'input', text: keys });
}

function onPaste(event) {
  event.preventDefault();
  const text = event.clipboardData.getData('text/plain');
  if (text.length > MAX_PASTE) {
    const reason = `${text.length} characters are too long to paste; ${MAX_PASTE} are taken at once.`;
    update({ failure: new Notice('Not pasted.', reason) });
  } else if (text && hasControl()) send({ type: 'paste', text });
}

function onFocusChange(event) {
  painter.focused = event.type === 'focus';
  grid.dirty.add(grid.cursor.row);
  painter.paint();
}

// Put the hidden field over the cursor, because an IME opens its window at the field.
function placeField() {
  const { scale, left, top } = size;
  field.style.left = `${left + grid.cursor.col * painter.width * scale}px`;
  field.style.top = `${top + grid.cursor.row * painter.height * scale}px`;
  field.style.font = `${Math.max(11, fontSize * scale)}px/1.3 var(--mono)`; // readable on a picture that is scaled down
  field.style.height = `${Math.max(15, painter.height * scale)}px`;
}

// -- size ----------------------------------------------------------------------------------------------------------

function font(delta) {
  fontSize = Math.min(40, Math.max(6, fontSize + delta));
  localStorage.setItem('editor-font', String(fontSize));
  setFont(fontSize);
}

function setFont(pixels) {
  painter.setSize(pixels);
  size.changed();
}

function onPlaced() {
  if (painter.ratio !== devicePixelRatio) setFont(fontSize);
  stateText.textContent = grid.cols ? `${grid.cols} × ${grid.rows}` : '';
  scaleText.textContent = size.scale < 1 && grid.cols ? `at ${Math.round(100 * size.scale)} %` : '';
  placeField();
}

// Give the editor as many lines and columns as the panel has room for, even if a terminal is attached.
function fit() {
  redraw(size.room());
}
