// Jumps in time: the range buttons, and the field for a date.

import { $, button } from './dom.js';
import { width, WIDTHS } from './intervals.js';
import { state } from './state.js';
import * as zones from './time_zones.js';

const DAY = 86_400_000;
const MAX_ALL_BARS = 800; // of the range `All`

// The range buttons: their length, and an interval that shows it with 150 to 400 bars. `All` has no length.
export const RANGES = {
  '1D': { length: DAY, interval: '5m' }, '1W': { length: 7 * DAY, interval: '1h' }, '1M': { length: 30 * DAY, interval: '4h' },
  '3M': { length: 91 * DAY, interval: '12h' }, '1Y': { length: 365 * DAY, interval: '1d' }, All: { length: null, interval: null },
};

// Calls `onRange(name)` for a range button, and `onDate(time)` for a date.
export function start({ onRange, onDate }) {
  $('range-buttons').replaceChildren(...Object.keys(RANGES).map((name, at) => button(name, () => onRange(name), { title: `${inWords(name)} (Alt+${at + 1})` })));
  $('date-form').onsubmit = (event) => {
    event.preventDefault();
    const { time, fault = '' } = parsedDate($('date').value, state.zone);
    $('date-fault').textContent = fault;
    if (!fault) onDate(time);
  };
  $('date').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    toggle();
    event.stopPropagation();
  });
}

const inWords = (name) => ({ '1D': 'One day', '1W': 'One week', '1M': 'One month', '3M': 'Three months', '1Y': 'One year', All: 'Everything' }[name]);

export function toggle() {
  const isOpen = $('date-form').hidden;
  $('date-form').hidden = !isOpen;
  $('go').setAttribute('aria-expanded', String(isOpen));
  $('date-fault').textContent = '';
  if (isOpen) $('date').select();
  (isOpen ? $('date') : $('go')).focus();
}

// The range {interval, from, to} of a button for a symbol with trades from `first` to `last`.
export function rangeOf(name, first, last) {
  const { length, interval } = RANGES[name];
  if (length) return { interval, from: last - length, to: last };
  const fitting = [...WIDTHS.keys()].find((each) => (last - first) / width(each) <= MAX_ALL_BARS) ?? '1M';
  return { interval: fitting, from: first, to: last };
}

const FORM = { fault: 'Write a date like 2026-01-31, with a time like 14:00 if you want.' };
const YEARS = { fault: 'The year is from 1970 to 2999.' };

// The {time} of a text like `2026-01-31`, `2026-01-31 14:00` or `31.1.2026 14:00` on the clocks of a zone, or its {fault}.
function parsedDate(text, zone) {
  const found = /^\s*(?:(\d{4})-(\d{1,2})-(\d{1,2})|(\d{1,2})\.(\d{1,2})\.(\d{4}))(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?\s*$/.exec(text);
  if (!found) return FORM;
  const [year, month, day] = (found[1] ? [found[1], found[2], found[3]] : [found[6], found[5], found[4]]).map(Number);
  const [hour, minute, second] = found.slice(7).map((each) => Number(each ?? 0));
  if (year < 1970 || year > 2999) return YEARS;
  const local = new Date(Date.UTC(year, month - 1, day, hour, minute, second));
  const isReal = local.getUTCMonth() === month - 1 && local.getUTCDate() === day && local.getUTCHours() === hour && minute < 60 && second < 60;
  return isReal ? { time: zones.timeOf(local.getTime(), zone) } : FORM;
}
