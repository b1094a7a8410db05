// Neovim's screen as a grid of cells. The events of `ext_linegrid` change it (:help ui-linegrid).

export class Grid {
  constructor() {
    this.cols = 0;
    this.rows = 0;
    this.cells = []; // a row is an array of { text, hl }; the right half of a wide character has text ''
    this.colors = { fg: 0, bg: 0xffffff, sp: 0xff0000 };
    this.highlights = new Map([[0, {}]]);
    this.cursor = { row: 0, col: 0 };
    this.modes = [];
    this.mode = { name: 'normal', index: 0 };
    this.cursorStyled = true;
    this.busy = false;
    this.mouse = true;
    this.title = '';
    this.dirty = new Set(); // rows to paint
  }

  // Apply one frame: a list of [name, arguments, arguments, ...].
  apply(events) {
    for (const [name, ...calls] of events) {
      const method = HANDLERS[name];
      if (method) for (const call of calls) method(this, call);
    }
  }

  markAllDirty() {
    for (let row = 0; row < this.rows; row += 1) this.dirty.add(row);
  }

  line(row) {
    return this.cells[row].map((cell) => cell.text).join('');
  }

  text() {
    return this.cells.map((_, row) => this.line(row).trimEnd()).join('\n');
  }

  cursorMode() {
    return (this.cursorStyled && this.modes[this.mode.index]) || { cursor_shape: 'block', cell_percentage: 100, attr_id: 0 };
  }
}

const blank = () => ({ text: ' ', hl: 0 });

const HANDLERS = {
  grid_resize(grid, [, cols, rows]) {
    const old = grid.cells;
    grid.cells = Array.from({ length: rows }, (_, row) => Array.from({ length: cols }, (__, col) => old[row]?.[col] || blank()));
    Object.assign(grid, { cols, rows });
    grid.markAllDirty();
  },
  grid_clear(grid) {
    for (const row of grid.cells) for (let col = 0; col < row.length; col += 1) row[col] = blank();
    grid.markAllDirty();
  },
  default_colors_set(grid, [fg, bg, sp]) {
    grid.colors = { fg: fg < 0 ? 0 : fg, bg: bg < 0 ? 0xffffff : bg, sp: sp < 0 ? 0xff0000 : sp };
    grid.markAllDirty();
  },
  hl_attr_define(grid, [id, rgb]) {
    grid.highlights.set(id, rgb);
  },
  grid_line(grid, [, row, start, cells]) {
    const line = grid.cells[row];
    if (!line) return;
    let col = start;
    let hl = 0;
    for (const [text, id, repeat = 1] of cells) {
      if (id !== undefined && id !== null) hl = id;
      for (let count = 0; count < repeat && col < line.length; count += 1) line[col++] = { text, hl };
    }
    grid.dirty.add(row);
  },
  grid_scroll(grid, [, top, bottom, left, right, rows]) {
    if (bottom > grid.cells.length) return; // this scroll belongs to an older, larger grid; the full grid that replaces it arrives next
    const move = (row) => {
      const from = grid.cells[row + rows];
      for (let col = left; col < right; col += 1) grid.cells[row][col] = from[col];
      grid.dirty.add(row);
    };
    if (rows > 0) for (let row = top; row < bottom - rows; row += 1) move(row);
    else for (let row = bottom - 1; row >= top - rows; row -= 1) move(row);
  },
  grid_cursor_goto(grid, [, row, col]) {
    grid.dirty.add(grid.cursor.row).add(row);
    grid.cursor = { row, col };
  },
  mode_info_set(grid, [enabled, infos]) {
    grid.cursorStyled = enabled;
    grid.modes = infos;
  },
  mode_change(grid, [name, index]) {
    grid.mode = { name, index };
    grid.dirty.add(grid.cursor.row);
  },
  busy_start(grid) { grid.busy = true; grid.dirty.add(grid.cursor.row); },
  busy_stop(grid) { grid.busy = false; grid.dirty.add(grid.cursor.row); },
  mouse_on(grid) { grid.mouse = true; },
  mouse_off(grid) { grid.mouse = false; },
  set_title(grid, [title]) { grid.title = title; },
};
