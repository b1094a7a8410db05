// The loaded trades of a symbol that have at least a given size. They are an unbroken part of all such trades, newest first.

import * as decimals from './decimals.js';

const LIMIT = 2000; // loaded trades

// The API's order of trades. `ts` always has the same number of digits.
function isNewer(one, other) {
  if (one.ts !== other.ts) return one.ts > other.ts;
  return one.seq === other.seq ? one.id > other.id : one.seq > other.seq;
}

export class TradeList {
  constructor(minSize = null) {
    this.minSize = minSize;
    this.rows = []; // as the API sends them, with `retracted` for those that a reorganisation removed; each change makes another array
    this.oldest = null; // the oldest trade that was read, whatever its size
    this.next = {}; // the query of the next older page; null if there are no older trades
    this.seen = 0; // how many trades were read
    this.hasNewer = false; // whether newer trades were dropped
    this.line = null; // the time before which ticks were removed, once a refusal has named it
    this.reads = new Set(); // for each running request, the ids of the trades that changed during the request
  }

  // The query that reads the loaded trades and all newer ones again; null before the first page.
  get again() {
    if (!this.oldest) return null;
    return { startTime: this.next ? this.oldest.ts : this.line ?? 0, ...(this.hasNewer && { endTime: this.rows[0].ts }) };
  }

  #fits = (trade) => this.minSize === null || decimals.compare(trade.size, this.minSize) >= 0;

  // Keeps the trades of another size, until the first page with this size is read.
  filter(minSize) {
    const filtered = new TradeList(minSize);
    filtered.line = this.line;
    if (!this.hasNewer) filtered.rows = this.rows.filter(filtered.#fits);
    return filtered;
  }

  // Adds a page of older trades, newest first.
  takeOlder({ ticks, next_cursor: cursor }) {
    const known = new Set(this.rows.map(({ id }) => id));
    this.rows = [...this.rows, ...ticks.filter((trade) => !known.has(trade.id)).filter(this.#fits)];
    this.#end(ticks, cursor);
    if (this.rows.length <= LIMIT) return;
    this.rows = this.rows.slice(-LIMIT);
    this.hasNewer = true;
  }

  // Takes the newest page, or the result of the query `again`. A loaded trade that is not there was retracted: it is kept and
  // marked, except where it changed `during` the request.
  takeNewest({ ticks, next_cursor: cursor }, during, isAgain) {
    const isLoaded = (trade) => !isAgain || !this.next || !isNewer(this.oldest, trade);
    const found = new Map(ticks.filter(this.#fits).filter(isLoaded).map((trade) => [trade.id, trade]));
    const end = isAgain || !cursor ? null : ticks.at(-1);
    const rows = this.rows.filter((trade) => !(Date.parse(trade.ts) < this.line || (end && isNewer(end, trade))))
      .map((trade) => (during.has(trade.id) ? trade : found.get(trade.id) ?? { ...trade, retracted: true }));
    for (const { id } of rows) found.delete(id);
    this.rows = [...rows, ...found.values()].sort((one, other) => (isNewer(one, other) ? -1 : 1));
    if (!isAgain) {
      this.seen = 0;
      this.#end(ticks, cursor);
    }
    this.#trim();
  }

  #end(ticks, cursor) {
    this.seen += ticks.length;
    this.oldest = ticks.at(-1) ?? this.oldest;
    this.next = cursor ? { cursor } : null;
  }

  #trim() {
    if (this.rows.length <= LIMIT) return;
    this.rows = this.rows.slice(0, LIMIT);
    this.oldest = this.rows.at(-1);
    this.next = { endTime: this.oldest.ts };
  }

  // Takes a live trade, or marks a loaded one as retracted.
  take(tick) {
    for (const during of this.reads) during.add(tick.id);
    if (tick.retracted) {
      this.rows = this.rows.map((trade) => (trade.id === tick.id ? { ...trade, retracted: true } : trade));
      return;
    }
    const others = this.rows.filter(({ id }) => id !== tick.id);
    if (others.length === this.rows.length) this.seen += 1;
    const isBeyond = (this.next && this.oldest && isNewer(this.oldest, tick)) || (this.hasNewer && isNewer(tick, this.rows[0]));
    if (isBeyond || !this.#fits(tick)) return;
    const at = others.findIndex((trade) => isNewer(tick, trade));
    this.rows = others.toSpliced(at < 0 ? others.length : at, 0, tick);
    this.#trim();
  }
}
