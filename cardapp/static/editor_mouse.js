// Mouse and wheel over the editor's picture: for Neovim while the editor has control, else, or with Shift as in a
// terminal, to select text in the picture for the clipboard.

import { heldButton, mouse } from './editor_input.js';

const WHEEL_PX = 40; // of a wheel's movement: one line

export class Mouse {
  // `send(message)` sends to Neovim; `field` takes the keys.
  constructor({ area, field, painter, hasControl, send }) {
    Object.assign(this, { field, painter, hasControl, send });
    this.canvas = painter.canvas;
    this.dragging = null; // { kind: 'neovim' or 'selection', at } while a button is held down
    this.wheel = 0; // lines that were turned and not sent yet
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
    if (isForNeovim) this.send(mouse(event, 'press', at));
    else this.select(at, at);
  }

  drag(event) {
    if (!this.dragging) return;
    const at = this.cell(event);
    const { at: before, kind } = this.dragging;
    if (at.row === before.row && at.col === before.col) return;
    this.dragging.at = at;
    if (kind === 'neovim') this.send(mouse(event, 'drag', at, heldButton(event)));
    else if (this.painter.selection) this.select(this.painter.selection.from, at);
  }

  release(event) {
    const { selection } = this.painter;
    if (this.dragging?.kind === 'neovim') this.send(mouse(event, 'release', this.cell(event)));
    else if (selection && selection.from.row === selection.to.row && selection.from.col === selection.to.col) this.select(null);
    this.dragging = null;
  }

  turn(event) {
    if (!this.hasControl() || event.ctrlKey) return;
    event.preventDefault();
    this.wheel += event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY : event.deltaY / WHEEL_PX;
    for (; Math.abs(this.wheel) >= 1; this.wheel -= Math.sign(this.wheel))
      this.send(mouse(event, this.wheel > 0 ? 'down' : 'up', this.cell(event), 'wheel'));
  }

  select(from, to) {
    this.painter.selection = from ? { from, to } : null;
    this.painter.grid.all();
    this.painter.paint();
  }

  copy() {
    navigator.clipboard?.writeText(this.painter.selectedText()).catch(() => {});
  }
}
