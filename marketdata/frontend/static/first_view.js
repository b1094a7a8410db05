// Reads the first candles of a view: the candles in its range and around it.

import { PHONE } from './dom.js';
import { MAX_TIME, width } from './intervals.js';
import { now } from './state.js';

const NEWEST = 600; // a view of the newest candles reads at least this many
const MIN_BARS = 40;
const MARGIN = 10; // empty bars beside a few candles
const BESIDE = 300; // candles to read before or after the range, if the first read found none there
export const MAX_READ = 10_000; // the API's limit of candles in one response

// Returns {range, symbol, tag, rows, hasOlder, hasNewer} for a range {bars, from, to}. `bars` may be null. `read(query)`
// returns {content, tag}. If the range has no candle and `mayBeEmpty` is false, the newest `bars` are read instead.
export async function firstView(read, range, interval, mayBeEmpty) {
  const { bars, from, to } = range;
  if (from === null) return newest(read, range, interval);
  const pad = Math.ceil((to - from) / 2);
  const end = { endTime: Math.min(to + pad, MAX_TIME), limit: MAX_READ };
  let { content, tag } = await read({ startTime: Math.max(from - pad, 0), ...end });
  // The candles before the range may be too many for one response.
  if (content.more && content.candles.at(-1).t < from) ({ content, tag } = await read({ startTime: from, ...end }));
  const rows = content.candles;
  if (!mayBeEmpty && !rows.some(({ t }) => t >= from && t <= to)) return newest(read, { bars, from: null, to: null }, interval);
  const [first, last] = [rows[0]?.t ?? from, rows.at(-1)?.t ?? from - 1];
  const isLast = !content.more && to + pad >= now();
  // A long run of empty buckets is shortened. This needs the candles before and after the run.
  const [older, newer] = await Promise.all([
    rows.length && first <= from ? null : read({ endTime: Math.max(first - 1, 0), limit: BESIDE }),
    last >= to || isLast ? null : read({ startTime: last + 1, limit: BESIDE }),
  ]);
  return {
    range, symbol: content.symbol, tag, rows: [...older?.content.candles ?? [], ...rows, ...newer?.content.candles ?? []],
    hasOlder: older?.content.more ?? true, hasNewer: newer?.content.more ?? !isLast,
  };
}

async function newest(read, range, interval) {
  const { content, tag } = await read({ limit: Math.min(Math.max(NEWEST, Math.ceil(range.bars * 1.5)), MAX_READ) });
  const bars = range.bars ?? fitting(content, interval);
  return { range: { ...range, bars }, symbol: content.symbol, tag, rows: content.candles, hasOlder: content.more, hasNewer: false };
}

// The number of bars to show if the user has not chosen a number. It is smaller if only a few candles exist.
function fitting({ candles, more }, interval) {
  const limit = PHONE.matches ? 80 : 160;
  if (more || !candles.length) return limit;
  const known = (candles.at(-1).t - candles[0].t) / width(interval);
  return Math.min(Math.max(Math.ceil(known) + MARGIN, MIN_BARS), limit);
}
