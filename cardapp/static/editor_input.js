// Keys, composed text, mouse and paste, as Neovim's input wants them (:help nvim_input, nvim_input_mouse).

const NAMES = {
  Enter: 'CR', Tab: 'Tab', Escape: 'Esc', Backspace: 'BS', Delete: 'Del', Insert: 'Insert', Home: 'Home', End: 'End',
  PageUp: 'PageUp', PageDown: 'PageDown', ArrowUp: 'Up', ArrowDown: 'Down', ArrowLeft: 'Left', ArrowRight: 'Right',
  ' ': 'Space', '<': 'lt', '\\': 'Bslash', '|': 'Bar',
};

const IME_KEY = 229; // the `keyCode` of every key that an input method handles
const UNTYPED = new Set(['Dead', 'Process', 'Unidentified', 'Compose', 'AltGraph']);

// The notation of a key, or null for one that types nothing by itself (a modifier, a dead key, a key of an IME).
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
  const shift = event.shiftKey && (!printable || key === ' '); // a printable key is the shifted character already
  const modifiers = [event.metaKey && 'D-', event.ctrlKey && 'C-', event.altKey && 'M-', shift && 'S-'].filter(Boolean);
  return `<${modifiers.join('')}${NAMES[key] || key}>`;
}

export const typed = (text) => text.replaceAll('<', '<lt>');

const BUTTONS = ['left', 'middle', 'right']; // by `event.button`

// The button that is held down during a drag, of `event.buttons`.
export function heldButton({ buttons }) {
  if (buttons & 1) return 'left';
  return buttons & 2 ? 'right' : 'middle';
}

export function mouse(event, action, cell, button = BUTTONS[event.button] || 'left') {
  const modifier = `${event.shiftKey ? 'S' : ''}${event.ctrlKey ? 'C' : ''}${event.altKey ? 'A' : ''}`;
  return { type: 'mouse', button, action, modifier, row: cell.row, col: cell.col };
}
