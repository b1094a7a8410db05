// The loaded candles of one view, sorted by time. No candle is missing between the first and the last.

import { bucketOpen, nextOpen, width } from './intervals.js';

// A longer run of empty buckets is shortened to this many.
const MAX_GAP = 500;
const AMOUNTS = ['o', 'h', 'l', 'c', 'v', 'q', 'n', 'vwap', 'bv'];
const FIELDS = [...AMOUNTS, 'closed', 'finalized'];

export class Candles {
  constructor(interval, zone) {
    this.interval = interval;
    this.zone = zone;
    this.rows = []; // as the API sends them, sorted by t
    this.hasOlder = true; // whether the API may have candles before the first one
    this.hasNewer = true; // whether the API may have candles after the last one; if not, live candles are appended
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

  // Replaces the candles with from <= t <= to by `rows`. Returns the list of changes, each like the result of put().
  replace(from, to, rows) {
    const [start, end] = [this.index(from), this.index(to + 1)];
    const before = new Map(this.rows.slice(start, end).map((row) => [row.t, row]));
    this.rows.splice(start, end - start, ...rows);
    const changes = rows.map((row) => difference(before.get(row.t) ?? null, row)).filter(Boolean);
    const kept = new Set(rows.map((row) => row.t));
    for (const [t, row] of before) if (!kept.has(t)) changes.push({ before: row, after: null, t, isCorrection: true });
    return changes;
  }

  // Stores a candle, or removes it if its bucket became empty. Returns the change {t, before, after, isCorrection}, or null
  // if nothing has changed.
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

  // Drops rows, so that at most `limit` are left. `end` is 'newest' or 'oldest' and says which rows are dropped.
  trim(limit, end) {
    if (this.rows.length <= limit) return;
    if (end === 'newest') {
      this.rows = this.rows.slice(0, limit);
      this.hasNewer = true;
    } else {
      this.rows = this.rows.slice(-limit);
      this.hasOlder = true;
    }
  }

  // Estimates how many bars another interval has from `from` to `to`, if long runs of empty buckets are shortened.
  barsOf(interval, from, to) {
    const [start, end] = [this.index(from), this.index(to)];
    const limit = MAX_GAP + width(this.interval) / width(interval);
    let [bars, before] = [0, from];
    for (let at = start; at <= end; at += 1) {
      const time = at < end ? this.rows[at].t : to;
      const gap = (time - before) / width(interval);
      // Buckets before the first candle and after the last one are not shortened.
      bars += this.rows[at] && (at || this.hasOlder) ? Math.min(gap, limit) : gap;
      before = time;
    }
    return bars;
  }

  // The opening times of the buckets to draw from `from` to `until`, with and without candles. Long runs of empty buckets
  // are shortened to MAX_GAP.
  slots(from, until) {
    const slots = [];
    const upTo = (end) => {
      const start = slots.length ? nextOpen(slots.at(-1), this.interval, this.zone) : bucketOpen(from, this.interval, this.zone);
      const missing = Math.ceil((end - start) / width(this.interval));
      const half = MAX_GAP / 2;
      for (let open = start, count = 0; open < end; open = nextOpen(open, this.interval, this.zone), count += 1) {
        if (count === half && missing > MAX_GAP) open = bucketOpen(end - half * width(this.interval), this.interval, this.zone);
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

// Returns `rows`, the result of a read of from <= t <= to, with newer candles in their place. `live` is a Map by t of the
// candles that arrived during the read; these are newer than the result.
export function overlaid(rows, live, from, to) {
  const newer = [...live.values()].filter(({ t }) => t >= from && t <= to);
  if (!newer.length) return rows;
  const found = new Map([...rows, ...newer].map((row) => [row.t, row]));
  return [...found.values()].filter(({ n }) => n).sort((one, other) => one.t - other.t);
}

function difference(before, after) {
  if (before && after.n && FIELDS.every((name) => before[name] === after[name])) return null;
  const isCorrection = before !== null && (before.closed ? AMOUNTS.some((name) => before[name] !== after[name]) : isReduced(before, after));
  return { t: after.t, before, after: after.n ? after : null, isCorrection };
}

// Whether an open candle has lost a trade. A new trade can only extend it.
const isReduced = (before, after) => after.n < before.n || Number(after.h) < Number(before.h) || Number(after.l) > Number(before.l) || Number(after.v) < Number(before.v);
