// Paints a Grid on a canvas: only the rows that changed, in runs of one highlight.

const FAMILY = '"Noto Sans Mono", "Noto Sans Signs", "Noto Sans Symbols 2", monospace';
const ASCII = /^[\x20-\x7e]*$/;

export class Painter {
  // `onResize` is called after the size of the canvas has changed.
  constructor(canvas, grid, onResize) {
    this.onResize = onResize;
    this.canvas = canvas;
    this.grid = grid;
    this.context = canvas.getContext('2d', { alpha: false });
    this.size = 13;
    this.focused = false;
    this.selection = null; // { from: { row, col }, to: { row, col } }
    this.measure();
  }

  // Compute the size of a cell in CSS pixels. In device pixels it is a whole number.
  measure() {
    this.ratio = devicePixelRatio || 1;
    this.context.font = `${this.size}px ${FAMILY}`;
    this.advance = this.context.measureText('0'.repeat(100)).width / 100;
    this.width = Math.max(1, Math.round(this.advance * this.ratio)) / this.ratio;
    this.height = Math.round(this.size * 1.36 * this.ratio) / this.ratio;
    this.base = Math.round((this.height - this.size * 1.16 + this.size * 0.94) * this.ratio) / this.ratio;
  }

  setSize(size) {
    this.size = Math.min(40, Math.max(6, size));
    this.measure();
    this.resize();
  }

  resize() {
    const { grid, ratio } = this;
    const width = Math.round(grid.cols * this.width * ratio);
    const height = Math.round(grid.rows * this.height * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.canvas.style.width = `${width / ratio}px`;
      this.canvas.style.height = `${height / ratio}px`;
      this.onResize();
    }
    grid.markAllDirty();
    this.paint();
  }

  // The cell at a point of the canvas. `x` and `y` are CSS pixels, after a CSS transform of the canvas.
  cellAt(x, y) {
    const scale = this.canvas.getBoundingClientRect().width / (parseFloat(this.canvas.style.width) || 1) || 1;
    const clamp = (value, count) => Math.min(Math.max(Math.floor(value), 0), count - 1);
    return { row: clamp(y / scale / this.height, this.grid.rows), col: clamp(x / scale / this.width, this.grid.cols) };
  }

  paint() {
    const { grid, context, ratio } = this;
    if (this.canvas.width !== Math.round(grid.cols * this.width * ratio) || this.canvas.height !== Math.round(grid.rows * this.height * ratio)) {
      this.resize();
      return;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = 'alphabetic';
    for (const row of grid.dirty) if (row < grid.rows) this.row(row);
    grid.dirty.clear();
    this.cursor();
  }

  row(row) {
    const cells = this.grid.cells[row];
    for (let start = 0; start < cells.length;) {
      let end = start + 1;
      const { hl } = cells[start];
      while (end < cells.length && cells[end].hl === hl) end += 1;
      this.run(row, start, end, this.styleOf(hl));
      start = end;
    }
    this.select(row);
  }

  // The attributes of the highlight `id`, with all colours filled in.
  styleOf(id) {
    const { colors, highlights } = this.grid;
    const highlight = highlights.get(id) || {};
    let fg = highlight.foreground ?? colors.fg;
    let bg = highlight.background ?? colors.bg;
    if (highlight.reverse) [fg, bg] = [bg, fg];
    return { ...highlight, fg, bg, sp: highlight.special ?? colors.sp };
  }

  run(row, start, end, style) {
    const { context, grid } = this;
    const [x, y] = [start * this.width, row * this.height];
    context.fillStyle = css(style.bg);
    context.fillRect(x, y, (end - start) * this.width, this.height);
    const cells = grid.cells[row];
    const text = cells.slice(start, end).map((cell) => cell.text).join('');
    if (text.trim()) this.text(cells, start, end, text, x, y, style);
    this.lines(x, y, (end - start) * this.width, style);
  }

  text(cells, start, end, text, x, y, style) {
    const { context } = this;
    context.font = `${style.italic ? 'italic ' : ''}${style.bold ? '700 ' : ''}${this.size}px ${FAMILY}`;
    context.fillStyle = css(style.fg);
    if (ASCII.test(text) && 'letterSpacing' in context) {
      context.letterSpacing = `${this.width - this.advance}px`;
      context.fillText(text, x, y + this.base);
      context.letterSpacing = '0px';
      return;
    }
    for (let col = start; col < end; col += 1) {
      const { text: one } = cells[col];
      if (!one || one === ' ') continue;
      const span = col + 1 < cells.length && cells[col + 1].text === '' ? 2 : 1;
      context.save();
      context.beginPath();
      context.rect(col * this.width - 1, y, span * this.width + 2, this.height);
      context.clip();
      context.fillText(one, col * this.width, y + this.base);
      context.restore();
    }
  }

  lines(x, y, width, style) {
    const { context } = this;
    const kind = ['undercurl', 'underdouble', 'underlineline', 'underdotted', 'underdot', 'underdashed', 'underdash', 'underline'].find((name) => style[name]);
    const thick = Math.max(1, Math.round((this.size / 13) * this.ratio)) / this.ratio;
    const low = y + this.height - thick * 2;
    context.lineWidth = thick;
    if (kind) {
      context.strokeStyle = css(style.sp);
      context.setLineDash(/dot/.test(kind) ? [thick, thick] : /dash/.test(kind) ? [thick * 4, thick * 2] : []);
      context.beginPath();
      if (kind === 'undercurl') {
        for (let at = 0; at <= width; at += 1) context.lineTo(x + at, low + Math.sin((at / this.width) * Math.PI * 2) * thick);
      } else {
        context.moveTo(x, low);
        context.lineTo(x + width, low);
        if (/double|lineline/.test(kind)) {
          context.moveTo(x, low - thick * 2);
          context.lineTo(x + width, low - thick * 2);
        }
      }
      context.stroke();
      context.setLineDash([]);
    }
    if (style.strikethrough) {
      context.fillStyle = css(style.fg);
      context.fillRect(x, y + this.height / 2, width, thick);
    }
  }

  cursor() {
    const { grid, context } = this;
    const { row, col } = grid.cursor;
    if (grid.busy || row >= grid.rows || col >= grid.cols) return;
    const mode = grid.cursorMode();
    const cell = grid.cells[row][col];
    const wide = grid.cells[row][col + 1]?.text === '' ? 2 : 1;
    const style = this.styleOf(cell.hl);
    const { fg, bg } = mode.attr_id ? this.styleOf(mode.attr_id) : { fg: style.bg, bg: style.fg };
    const [x, y, width] = [col * this.width, row * this.height, this.width * wide];
    context.fillStyle = css(bg);
    grid.dirty.add(row); // so that the next frame paints over the cursor
    if (!this.focused) {
      context.strokeStyle = css(bg);
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, width - 1, this.height - 1);
      return;
    }
    const part = (mode.cell_percentage || 100) / 100;
    if (mode.cursor_shape === 'vertical') context.fillRect(x, y, Math.max(1.5, width * part), this.height);
    else if (mode.cursor_shape === 'horizontal') context.fillRect(x, y + this.height * (1 - part), width, this.height * part);
    else {
      context.fillRect(x, y, width, this.height);
      if (cell.text.trim()) this.text(grid.cells[row], col, col + wide, cell.text, x, y, { ...style, fg });
    }
  }

  // -- the page's selection, from which text is copied -------------------------------------------------------------

  // The selected columns of a row, as [first, after the last]; null if none is selected.
  range(row) {
    if (!this.selection) return null;
    const [first, last] = [this.selection.from, this.selection.to].sort((a, b) => a.row - b.row || a.col - b.col);
    if (row < first.row || row > last.row) return null;
    return [row === first.row ? first.col : 0, row === last.row ? last.col + 1 : this.grid.cols];
  }

  select(row) {
    const range = this.range(row);
    if (!range) return;
    this.context.fillStyle = 'rgb(90 150 220 / .35)';
    this.context.fillRect(range[0] * this.width, row * this.height, (range[1] - range[0]) * this.width, this.height);
  }

  selectedText() {
    const rows = [];
    for (let row = 0; row < this.grid.rows; row += 1) {
      const range = this.range(row);
      if (range) rows.push(this.grid.cells[row].slice(...range).map((cell) => cell.text).join('').trimEnd());
    }
    return rows.join('\n');
  }
}

export const css = (color) => `#${color.toString(16).padStart(6, '0')}`;
