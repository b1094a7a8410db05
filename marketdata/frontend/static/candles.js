// The candles that are known of one view, in order and without a hole: everything from the first to the last.

import { bucketOpen, nextOpen, width } from './intervals.js';

// A longer run of buckets without a candle is drawn as this many.
const LONGEST_GAP = 500;
const FIELDS = ['o', 'h', 'l', 'c', 'v', 'n', 'closed', 'finalized'];

export class Candles {
  constructor(interval, zone) {
    this.interval = interval;
    this.zone = zone;
    this.rows = []; // as the API gives them, by t
    this.hasOlder = true; // whether the API may have candles before the first
    this.hasNewer = true; // and after the last; when not, live ones are appended
  }

  get first() { return this.rows[0]; }

  get last() { return this.rows.at(-1); }

  // The index of the first row with t >= time.
  index(time) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].t < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The last row with t <= time.
  before(time) { return this.rows[this.index(time + 1) - 1]; }

  at(time) {
    const row = this.rows[this.index(time)];
    return row?.t === time ? row : null;
  }

  // Replace what is known of from <= t <= to by `rows`; the changes, as put() gives them.
  replace(from, to, rows) {
    const [start, end] = [this.index(from), this.index(to + 1)];
    const before = new Map(this.rows.slice(start, end).map((row) => [row.t, row]));
    this.rows.splice(start, end - start, ...rows);
    const changes = rows.map((row) => difference(before.get(row.t) ?? null, row)).filter(Boolean);
    const kept = new Set(rows.map((row) => row.t));
    for (const [t, row] of before) if (!kept.has(t)) changes.push({ before: row, after: null, t, isCorrection: true });
    return changes;
  }

  // Store one candle, or remove it when its bucket was emptied; what changed: {t, before, after, isCorrection} or null.
  put(row) {
    const at = this.index(row.t);
    const before = this.rows[at]?.t === row.t ? this.rows[at] : null;
    const after = row.n ? row : null;
    if (!before && !after) return null;
    this.rows.splice(at, before ? 1 : 0, ...(after ? [after] : []));
    return difference(before, after ?? row);
  }

  prepend(rows) { this.rows = rows.concat(this.rows); }

  append(rows) { this.rows = this.rows.concat(rows); }

  // Forget rows at the far end, so that `most` are left.
  trim(most, end) {
    if (this.rows.length <= most) return;
    if (end === 'newest') {
      this.rows = this.rows.slice(0, most);
      this.hasNewer = true;
    } else {
      this.rows = this.rows.slice(-most);
      this.hasOlder = true;
    }
  }

  // The opening times to draw from `from` to `until`, of candles and of the empty buckets between them.
  slots(from, until) {
    const slots = [];
    const upTo = (end) => {
      const start = slots.length ? nextOpen(slots.at(-1), this.interval, this.zone) : bucketOpen(from, this.interval, this.zone);
      const missing = Math.ceil((end - start) / width(this.interval));
      const half = LONGEST_GAP / 2;
      for (let open = start, count = 0; open < end; open = nextOpen(open, this.interval, this.zone), count += 1) {
        if (count === half && missing > LONGEST_GAP) open = bucketOpen(end - half * width(this.interval), this.interval, this.zone);
        slots.push(open);
      }
    };
    for (const row of this.rows) {
      if (slots.length || from < row.t) upTo(row.t);
      slots.push(row.t);
    }
    upTo(until + 1);
    return slots;
  }
}

// The `rows` that a read gave of from <= t <= to, with the states over them that came live meanwhile, a Map by t.
export function overlaid(rows, live, from, to) {
  const newer = [...live.values()].filter(({ t }) => t >= from && t <= to);
  if (!newer.length) return rows;
  const found = new Map([...rows, ...newer].map((row) => [row.t, row]));
  return [...found.values()].filter(({ n }) => n).sort((one, other) => one.t - other.t);
}

function difference(before, after) {
  if (before && after.n && FIELDS.every((name) => before[name] === after[name])) return null;
  // Trades only add to a candle that is open; anything else corrects it.
  const isCorrection = Boolean(before) && (after.n < before.n || (before.closed && after.v !== before.v) || after.h !== before.h && Number(after.h) < Number(before.h));
  return { t: after.t, before, after: after.n ? after : null, isCorrection };
}
