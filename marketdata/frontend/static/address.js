// The page's address holds the view: ?symbol=…&interval=1h&zone=+00:00, and either bars=160 (the newest 160 bars) or from
// and to. If the address has neither, the page shows the newest bars, as many as fit well.

import { WIDTHS } from './intervals.js';
import * as zones from './time_zones.js';

// The view of an address. A missing or invalid part is null. `faults` contains a sentence for each invalid part.
export function read(search) {
  const given = new URLSearchParams(search.replaceAll('+', '%2B'));
  const [from, to] = ['from', 'to'].map((name) => Date.parse(given.get(name) ?? ''));
  const bars = Number(given.get('bars'));
  const zone = zones.parsed(given.get('zone') ?? '');
  const faults = [];
  if (given.has('interval') && !WIDTHS.has(given.get('interval'))) faults.push(`There is no interval “${given.get('interval')}”. There are ${[...WIDTHS.keys()].join(', ')}.`);
  if (given.has('zone') && zone === null) faults.push(`There is no time zone “${given.get('zone')}”. One is an offset from UTC, from -12:00 to +14:00, like +05:30.`);
  if (!(from < to) && (given.has('from') || given.has('to'))) faults.push('The range needs “from” and “to” like 2026-01-31T12:00:00Z, the earlier one first.');
  return {
    faults,
    symbol: given.get('symbol') || null,
    interval: WIDTHS.has(given.get('interval')) ? given.get('interval') : null,
    zone,
    log: given.has('scale') ? given.get('scale') === 'log' : null,
    bars: bars >= 2 && bars <= 50_000 ? bars : null,
    from: from < to ? from : null,
    to: from < to ? to : null,
  };
}

export function written({ symbol, interval, zone, log, bars, from, to }) {
  const time = (ms) => new Date(ms).toISOString().replace('.000Z', 'Z');
  const parts = { symbol, interval, zone: zones.text(zone), ...(log && { scale: 'log' }) };
  Object.assign(parts, from === null ? { bars: String(bars) } : { from: time(from), to: time(to) });
  const encoded = (value) => encodeURIComponent(value).replace(/%(3A|2F|2B)/g, decodeURIComponent);
  return `?${Object.entries(parts).map(([name, value]) => `${name}=${encoded(value)}`).join('&')}`;
}
