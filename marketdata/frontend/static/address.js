// The page's address holds the view: ?symbol=…&interval=1h&zone=Europe/Berlin, and either bars=160 (the newest 160 bars) or
// from and to. If the address has neither, the page shows the newest bars, as many as fit well. Parts with their
// default values are left out: type, scale, inverted, connected, indicators, panels, list, min.

import * as decimals from './decimals.js';
import * as indicators from './indicators.js';
import { MAX_TIME, WIDTHS } from './intervals.js';
import { remembered } from './state.js';
import * as zones from './time_zones.js';

export const TYPES = ['candles', 'hollow', 'bars', 'line', 'area'];
const SCALES = ['linear', 'log', 'percent'];
export const PANELS = ['watchlist', 'trades'];
export const LISTS = ['mine', 'change', 'volume', 'newest'];
const MAX_BARS = 50_000;

// The view of an address. A missing or invalid part is null. `faults` contains a sentence for each invalid part.
export function read(search) {
  const given = new URLSearchParams(search.replaceAll('+', '%2B'));
  const [from, to] = ['from', 'to'].map((name) => Date.parse(given.get(name) ?? ''));
  const isRange = from >= 0 && from < to && to <= MAX_TIME;
  const bars = Number(given.get('bars'));
  const zone = zones.parsed(given.get('zone') ?? '');
  const faults = [];
  const oneOf = (name, known) => {
    const value = given.get(name);
    if (value === null || known.includes(value)) return value;
    faults.push(`There is no ${name} “${value}”. There are ${known.join(', ')}.`);
    return null;
  };
  const chosen = indicators.read(given.get('indicators') ?? '');
  const interval = oneOf('interval', [...WIDTHS.keys()]);
  if (given.has('zone') && zone === null) faults.push(`There is no time zone “${given.get('zone')}”. One has a name like Europe/Berlin, or is an offset from UTC from -12:00 to +14:00, like +05:30.`);
  if (!isRange && (given.has('from') || given.has('to'))) faults.push('The range needs “from” and “to” like 2026-01-31T12:00:00Z, the earlier one first, from 1970 to 2999.');
  if (given.has('bars') && !(bars >= 2 && bars <= MAX_BARS)) faults.push(`The number of bars “${given.get('bars')}” is not from 2 to ${MAX_BARS}.`);
  const minSize = decimals.parsed(given.get('min') ?? '');
  if (given.has('min') && minSize === null) faults.push(`The size “${given.get('min')}” is not a number like 0.5.`);
  faults.push(...chosen.faults);
  return {
    indicators: chosen.chosen,
    faults, interval, zone, minSize,
    symbol: given.get('symbol') || null,
    type: oneOf('type', TYPES),
    scale: oneOf('scale', SCALES),
    isInverted: given.get('inverted') === '1',
    isConnected: given.get('connected') !== '0',
    panels: given.has('panels') ? given.get('panels').split(',').filter((each) => PANELS.includes(each)) : null,
    list: oneOf('list', LISTS),
    bars: bars >= 2 && bars <= MAX_BARS ? bars : null,
    from: isRange ? from : null,
    to: isRange ? to : null,
  };
}

// The view of an address. Parts that it lacks are the user's last choices or, without these, one hour and UTC. The symbol may
// stay null; state.js has the first one.
export function completed(search) {
  const given = read(search);
  return { ...given, interval: given.interval ?? remembered('interval') ?? '1h', zone: given.zone ?? zones.parsed(remembered('zone') ?? '') ?? 'UTC' };
}

export function written({ symbol, interval, zone, type, scale, isInverted, isConnected, indicators: chosen, panels, list, minSize, bars, from, to }) {
  const time = (ms) => new Date(ms).toISOString().replace('.000Z', 'Z');
  const parts = {
    symbol, interval, zone,
    ...(type !== 'candles' && { type }), ...(scale !== 'linear' && { scale }), ...(isInverted && { inverted: '1' }),
    ...(!isConnected && { connected: '0' }),
    ...(chosen.length && { indicators: indicators.written(chosen) }),
    ...(panels.length && { panels: panels.join(',') }), ...(list !== 'mine' && { list }), ...(minSize !== null && { min: minSize }),
    ...(from === null ? bars && { bars: String(bars) } : { from: time(from), to: time(to) }),
  };
  const encoded = (value) => encodeURIComponent(value).replace(/%(3A|2F|2B|2C)/g, decodeURIComponent);
  return `?${Object.entries(parts).map(([name, value]) => `${name}=${encoded(value)}`).join('&')}`;
}
