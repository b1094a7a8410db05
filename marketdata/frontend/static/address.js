// The address holds the view: ?symbol=…&interval=1h&zone=+00:00, and either bars=160, the newest that many, or from and to.

import { WIDTHS } from './intervals.js';
import * as zones from './zones.js';

export const BARS = 160;

// What an address says; a missing or invalid part is null.
export function read(search) {
  const given = new URLSearchParams(search.replaceAll('+', '%2B'));
  const [from, to] = ['from', 'to'].map((name) => Date.parse(given.get(name) ?? ''));
  const bars = Number(given.get('bars'));
  return {
    symbol: given.get('symbol') || null,
    interval: WIDTHS.has(given.get('interval')) ? given.get('interval') : null,
    zone: zones.parsed(given.get('zone') ?? ''),
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
  const kept = (value) => encodeURIComponent(value).replace(/%(3A|2F|2B)/g, decodeURIComponent);
  return `?${Object.entries(parts).map(([name, value]) => `${name}=${kept(value)}`).join('&')}`;
}
