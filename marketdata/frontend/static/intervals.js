// Intervals of candles and their buckets, with the rules of the API (marketdata/interval.py). Intervals below a day divide the
// local day from its beginning, in real time, so the last bucket of a day of 23 or 25 hours may be shorter. Longer intervals are
// whole local days. Times are in milliseconds since 1970.

import { dayOf, timeOf } from './time_zones.js';

const SECOND = 1000;
const DAY = 86_400 * SECOND;
const ORIGIN = -360 * DAY; // Monday, 1969-01-06
const DAYS_OF_MONTH = 30;
export const MAX_TIME = Date.UTC(3000, 0) - 1; // the last time of the API; the first one is 0

// Seconds of each interval; null for a month, whose length varies.
export const WIDTHS = new Map(Object.entries({
  '1s': 1, '1m': 60, '3m': 180, '5m': 300, '15m': 900, '30m': 1800, '1h': 3600, '2h': 7200, '4h': 14_400,
  '6h': 21_600, '8h': 28_800, '12h': 43_200, '1d': 86_400, '3d': 259_200, '1w': 604_800, '1M': null,
}));

const UNITS = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week', M: 'month' };

// The interval in words, like `15 minutes`.
export function inWords(interval) {
  const count = parseInt(interval, 10);
  return `${count} ${UNITS[interval.at(-1)]}${count === 1 ? '' : 's'}`;
}

// The length of a bucket in milliseconds. A month counts as 30 days.
export const width = (interval) => (WIDTHS.get(interval) ?? DAYS_OF_MONTH * 86_400) * SECOND;

const isWithinDay = (interval) => WIDTHS.get(interval) !== null && width(interval) < DAY;

// The first midnight of the bucket of whole days that contains the day of this midnight. Both are as if they were in UTC.
function firstMidnight(midnight, interval) {
  const date = new Date(midnight);
  if (WIDTHS.get(interval) === null) return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
  return midnight - (midnight - ORIGIN) % width(interval);
}

export function bucketOpen(time, interval, zone) {
  const { start, midnight } = dayOf(time, zone);
  if (isWithinDay(interval)) return time - (time - start) % width(interval);
  return timeOf(firstMidnight(midnight, interval), zone);
}

// The opening time of the next bucket after the bucket that opens at `open`.
export function nextOpen(open, interval, zone) {
  const { end, midnight } = dayOf(open, zone);
  if (isWithinDay(interval)) return Math.min(open + width(interval), end);
  const first = firstMidnight(midnight, interval);
  // 31 days later is always in the next month.
  return timeOf(WIDTHS.get(interval) === null ? firstMidnight(first + 31 * DAY, interval) : first + width(interval), zone);
}

// The intervals that typed text can mean, the best match first. As in TradingView, a number without a unit means minutes:
// `60` is an hour. A unit without a number means one: `D` is a day. Upper and lower case are the same, except that m is a
// minute and M a month.
export function matching(typed) {
  const found = /^(\d*)\s*([a-zA-Z]?)$/.exec(typed.trim());
  if (!found || !typed.trim()) return [];
  const [, digits, letter] = found;
  const unit = letter === 'M' ? 'M' : letter.toLowerCase();
  const seconds = Number(digits || 1) * ({ '': 60, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }[unit] ?? NaN);
  const all = [...WIDTHS.keys()];
  const exact = all.filter((each) => (unit === 'M' ? each === `${digits || 1}M` : WIDTHS.get(each) === seconds));
  const alike = all.filter((each) => each.startsWith(digits) && (!unit || each.endsWith(unit)));
  return [...new Set([...exact, ...alike])];
}
