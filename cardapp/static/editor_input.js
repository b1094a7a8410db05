// Converts the editor's input to the arguments of Neovim's input functions (:help nvim_input, nvim_input_mouse). The input
// is keys, text that an input method composes, and the mouse.

const NAMES = {
  Enter: 'CR', Tab: 'Tab', Escape: 'Esc', Backspace: 'BS', Delete: 'Del', Insert: 'Insert', Home: 'Home', End: 'End',
  PageUp: 'PageUp', PageDown: 'PageDown', ArrowUp: 'Up', ArrowDown: 'Down', ArrowLeft: 'Left', ArrowRight: 'Right',
  ' ': 'Space', '<': 'lt', '\\': 'Bslash', '|': 'Bar',
};

const IME_KEY = 229; // the `keyCode` of every key that an input method handles
const UNTYPED = new Set(['Dead', 'Process', 'Unidentified', 'Compose', 'AltGraph']);

// A key in Neovim's notation; null if the key types nothing by itself (a modifier, a dead key, a key of an IME).
export function notation(event) {
  const { key } = event;
  if (event.isComposing || event.keyCode === IME_KEY || UNTYPED.has(key)) return null;
  const printable = [...key].length === 1;
  const isAltGraph = event.getModifierState?.('AltGraph');
  if (printable && (isAltGraph || !(event.ctrlKey || event.altKey || event.metaKey))) {
    if (key === ' ' && event.shiftKey) return '<S-Space>';
    return typed(key);
  }
  if (!printable && !NAMES[key] && !/^F\d{1,2}$/.test(key)) return null;
  const shift = event.shiftKey && (!printable || key === ' '); // a printable `key` is already the shifted character
  const modifiers = [event.metaKey && 'D-', event.ctrlKey && 'C-', event.altKey && 'M-', shift && 'S-'].filter(Boolean);
  return `<${modifiers.join('')}${NAMES[key] || key}>`;
}

export const typed = (text) => text.replaceAll('<', '<lt>');

// -- composed text --------------------------------------------------------------------------------------------------
// Text of an input method or a dead key is shown at the cursor while it is composed. It is typed when it is committed.

// Call `take` with each committed text, then empty the field.
export function bindComposition(field, take) {
  const end = (text) => {
    field.value = '';
    field.classList.remove('composing');
    field.style.width = '';
    if (text) take(text);
  };
  field.addEventListener('compositionstart', () => field.classList.add('composing'));
  field.addEventListener('compositionend', (event) => end(event.data));
  field.addEventListener('input', (event) => {
    if (!event.isComposing) {
      end(field.value);
      return;
    }
    field.style.width = '';
    field.style.width = `${field.scrollWidth}px`;
  });
}

// -- the mouse ------------------------------------------------------------------------------------------------------
// While the editor has control, mouse and wheel over the picture go to Neovim. Without control a click takes control, as a
// click into any text field does. A drag without control, or with Shift as in a terminal, selects text in the picture for
// the clipboard.

const BUTTONS = ['left', 'middle', 'right']; // by `event.button`

// The button that is held down during a drag, read from `event.buttons`.
function heldButton({ buttons }) {
  if (buttons & 1) return 'left';
  return buttons & 2 ? 'right' : 'middle';
}

function mouseMessage(event, action, cell, button = BUTTONS[event.button] || 'left') {
  const modifier = `${event.shiftKey ? 'S' : ''}${event.ctrlKey ? 'C' : ''}${event.altKey ? 'A' : ''}`;
  return { type: 'mouse', button, action, modifier, row: cell.row, col: cell.col };
}

const WHEEL_PX = 40; // a movement of the wheel by this many pixels scrolls one line

export class Mouse {
  // `send(message)` sends to Neovim; `field` is the element that receives the keys.
  constructor({ area, field, painter, hasControl, takeControl, send }) {
    Object.assign(this, { field, painter, hasControl, takeControl, send });
    this.canvas = painter.canvas;
    this.dragging = null; // while a button is held down: { kind: 'neovim' or 'selection', at: the last cell }
    this.wheel = 0; // movement of the wheel that was not sent yet, in lines
    this.bind(area);
  }

  bind(area) {
    const { canvas, painter } = this;
    canvas.addEventListener('pointerdown', (event) => this.press(event));
    canvas.addEventListener('pointermove', (event) => this.drag(event));
    for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, (event) => this.release(event));
    canvas.addEventListener('contextmenu', (event) => { if (this.hasControl()) event.preventDefault(); });
    area.addEventListener('wheel', (event) => this.turn(event), { passive: false });
    document.addEventListener('pointerdown', (event) => {
      if (painter.selection && !area.contains(event.target)) this.select(null);
    });
    document.addEventListener('copy', (event) => {
      if (!painter.selection) return;
      event.clipboardData.setData('text/plain', painter.selectedText());
      event.preventDefault();
    });
  }

  cell(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.painter.cellAt(event.clientX - box.left, event.clientY - box.top);
  }

  press(event) {
    const hasControl = this.hasControl();
    if (hasControl) {
      event.preventDefault();
      this.field.focus({ preventScroll: true });
    }
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.cell(event);
    const isForNeovim = hasControl && this.painter.grid.mouse && !event.shiftKey;
    this.dragging = { kind: isForNeovim ? 'neovim' : 'selection', at };
    if (isForNeovim) this.send(mouseMessage(event, 'press', at));
    else this.select(at, at);
  }

  drag(event) {
    if (!this.dragging) return;
    const at = this.cell(event);
    const { at: before, kind } = this.dragging;
    if (at.row === before.row && at.col === before.col) return;
    this.dragging.at = at;
    if (kind === 'neovim') this.send(mouseMessage(event, 'drag', at, heldButton(event)));
    else if (this.painter.selection) this.select(this.painter.selection.from, at);
  }

  release(event) {
    const { selection } = this.painter;
    if (this.dragging?.kind === 'neovim') this.send(mouseMessage(event, 'release', this.cell(event)));
    else if (selection && selection.from.row === selection.to.row && selection.from.col === selection.to.col) {
      this.select(null);
      if (!this.hasControl() && event.button === 0) this.click(event);
    }
    this.dragging = null;
  }

  // Take control, then send the click, so that Neovim's cursor is where the click was.
  click(event) {
    this.takeControl();
    if (!this.painter.grid.mouse) return;
    for (const action of ['press', 'release']) this.send(mouseMessage(event, action, this.cell(event), 'left'));
  }

  turn(event) {
    if (!this.hasControl() || event.ctrlKey) return;
    event.preventDefault();
    this.wheel += event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY : event.deltaY / WHEEL_PX;
    for (; Math.abs(this.wheel) >= 1; this.wheel -= Math.sign(this.wheel))
      this.send(mouseMessage(event, this.wheel > 0 ? 'down' : 'up', this.cell(event), 'wheel'));
  }

  select(from, to) {
    this.painter.selection = from ? { from, to } : null;
    this.painter.grid.markAllDirty();
    this.painter.paint();
  }

  copy() {
    navigator.clipboard?.writeText(this.painter.selectedText()).catch(() => {});
  }
}
