// The size and the place of the editor's picture in its panel. Without a terminal the editor's grid takes the size of the
// panel of the page that was focused last. A picture of another size is scaled down and centred on its own ground.

import { button, element } from './dom.js';
import { css } from './editor_canvas.js';

const CALM_MS = 200; // the panel's size is sent to the service when it has not changed for this time
const WAIT_MS = 1000; // a first picture that does not fill the panel is shown after this time
const LIMITS = { cols: [20, 500], rows: [6, 200] }; // the service's

export class PictureSize {
  // `send(message)` sends to the service, `isFit()` says whether the grid shall follow the panel, `fit()` resizes it on
  // request, and `onPlace` is called after the picture was placed.
  constructor({ area, painter, send, isFit, fit, onPlace }) {
    Object.assign(this, { area, painter, send, isFit, onPlace });
    this.scale = 1; // the picture is scaled by this factor, so that it fits into the panel
    this.left = 0; // of the picture in the panel, in CSS pixels
    this.top = 0;
    this.terminal = false; // whether a terminal is attached to the session
    this.calmAt = 0; // when the panel's size will have been the same for CALM_MS
    this.waitsUntil = 0; // no picture is shown until then unless it fills the panel
    this.words = element('span', {});
    this.note = element('p', { class: 'follows', hidden: true }, this.words, button('Fit the editor to this panel', fit));
    area.append(this.note);
    new ResizeObserver(() => this.changed()).observe(area);
    addEventListener('focus', () => this.tellWhenCalm());
  }

  // The columns and rows that the panel has room for.
  room() {
    const { area, painter } = this;
    const within = (count, [least, most]) => Math.min(Math.max(Math.floor(count), least), most);
    return { cols: within(area.clientWidth / painter.width, LIMITS.cols), rows: within(area.clientHeight / painter.height, LIMITS.rows) };
  }

  fills() {
    const { cols, rows } = this.room();
    return this.painter.grid.cols === cols && this.painter.grid.rows === rows;
  }

  // Call this after the size of the panel or of a cell has changed.
  changed() {
    this.calmAt = performance.now() + CALM_MS;
    this.place();
    this.tellWhenCalm();
  }

  // A new stream has begun. The panel's size is sent when Neovim says whether a terminal is attached, because a resize
  // while Neovim starts may be lost.
  begin() {
    this.waitsUntil = performance.now() + WAIT_MS;
    setTimeout(() => this.place(), WAIT_MS);
  }

  setTerminal(attached) {
    this.terminal = attached;
    this.place();
    this.tellWhenCalm();
  }

  tellWhenCalm() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.isFit() && this.area.clientWidth) this.send({ type: 'panel', ...this.room(), focused: document.hasFocus() });
    }, Math.max(0, this.calmAt - performance.now()));
  }

  // With `viewer.editor.fit` the picture is scaled down to the panel. Otherwise the panel scrolls.
  place() {
    const { area, painter: { canvas, grid, ratio } } = this;
    const isFit = this.isFit();
    this.note.hidden = !(isFit && this.terminal && grid.cols && !this.fills());
    this.words.textContent = `follows the terminal, ${grid.cols}×${grid.rows}`;
    const [width, height] = [parseFloat(canvas.style.width) || 0, parseFloat(canvas.style.height) || 0];
    const space = area.clientHeight - (this.note.hidden ? 0 : this.note.offsetHeight);
    this.scale = isFit && width ? Math.min(1, area.clientWidth / width, space / height || 1) : 1;
    const half = (pixels) => Math.max(0, Math.floor((pixels * ratio) / 2) / ratio);
    this.left = half(area.clientWidth - width * this.scale);
    this.top = half(space - height * this.scale);
    canvas.style.transform = `translate(${this.left}px, ${this.top}px) scale(${this.scale})`;
    area.style.setProperty('--ground', css(grid.colors.bg));
    area.style.setProperty('--ground-ink', css(grid.colors.fg));
    this.show();
    this.onPlace();
  }

  // Show the picture unless it is one that will soon be replaced by one that fills the panel.
  show() {
    const isSoonReplaced = this.isFit() && !this.terminal && !this.fills();
    if (!isSoonReplaced) this.waitsUntil = 0;
    this.waits = performance.now() < this.waitsUntil;
    this.area.classList.toggle('waits', this.waits);
  }
}
