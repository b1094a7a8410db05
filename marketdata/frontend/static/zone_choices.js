// The list of time zones to choose from, and the search in it.

import { now, remember, remembered } from './state.js';
import * as zones from './time_zones.js';

const KEPT = 5; // remembered zones
const NO_MATCH = 3;
const MINUTE = 60_000;

const chosen = () => (remembered('zones') ?? '').split(',').map(zones.parsed).filter(Boolean);

// Remembers a choice of the user.
export const note = (zone) => remember('zones', [...new Set([zone, ...chosen()])].slice(0, KEPT).join(','));

// The zones that match every typed word, the best match first. A word is a part of the name, or an offset like `+2` or
// `UTC+5:30`. Without words, these are UTC, the browser's zone, the last choices, and then all others.
export function matching(typed) {
  const words = typed.toLowerCase().replace(/(utc|gmt)\s*(?=[+\-−])/, '').split(/\s+/).filter(Boolean);
  const offset = words.length === 1 ? zones.parsed(fixed(words[0]) ?? '') : null;
  const known = [offset, 'UTC', zones.localZone(), ...chosen(), ...zones.names()].filter(Boolean);
  return [...new Set(known)]
    .map((zone) => ({ zone, rank: Math.max(0, ...words.map((word) => rankOf(zone, word))) }))
    .filter(({ rank }) => rank < NO_MATCH)
    .sort((one, other) => one.rank - other.rank)
    .map(({ zone }) => zone);
}

// The fixed offset of a typed one, or null.
function fixed(word) {
  const found = /^([+\-−])(\d{1,2}):?([0-5]\d)?$/.exec(word);
  return found && `${found[1] === '+' ? '+' : '-'}${found[2].padStart(2, '0')}:${found[3] ?? '00'}`;
}

// How well a zone matches a typed word: 0 is the start of its city, 1 the start of its name, 2 any part.
function rankOf(zone, word) {
  const offset = fixed(word);
  if (offset) return zones.offsetAt(now(), zone) === zones.offsetAt(0, offset) ? 0 : NO_MATCH;
  const name = zones.label(zone).toLowerCase();
  if (name.split('/').at(-1).startsWith(word)) return 0;
  if (name.startsWith(word)) return 1;
  return name.includes(word) || zone.toLowerCase().includes(word) ? 2 : NO_MATCH;
}

// What the list says about a zone: its current offset and local time.
export function description(zone) {
  const minutes = zones.offsetAt(now(), zone) / MINUTE;
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map((each) => String(each).padStart(2, '0'));
  const { weekday, minute } = zones.parts(now(), zone);
  return {
    offset: `UTC${minutes < 0 ? '−' : '+'}${hours}:${rest}`, time: `${weekday} ${minute}`,
    remark: zone === zones.localZone() ? 'this browser' : fixed(zone) ? 'at all times' : '',
  };
}
