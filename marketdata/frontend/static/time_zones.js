// Time zones. A zone is a text: an IANA name like `Europe/Berlin`, `UTC`, or a fixed offset from UTC like `+05:30`.

const DAY = 86_400_000;
const WEEK = 7 * DAY;

// Some browsers have these zones by old names only, which a PostgreSQL may lack.
const RENAMED = {
  'Africa/Asmera': 'Africa/Asmara', 'America/Buenos_Aires': 'America/Argentina/Buenos_Aires', 'America/Catamarca': 'America/Argentina/Catamarca',
  'America/Coral_Harbour': 'America/Atikokan', 'America/Cordoba': 'America/Argentina/Cordoba', 'America/Godthab': 'America/Nuuk',
  'America/Indianapolis': 'America/Indiana/Indianapolis', 'America/Jujuy': 'America/Argentina/Jujuy', 'America/Louisville': 'America/Kentucky/Louisville',
  'Asia/Calcutta': 'Asia/Kolkata', 'Asia/Katmandu': 'Asia/Kathmandu', 'Asia/Rangoon': 'Asia/Yangon', 'Asia/Saigon': 'Asia/Ho_Chi_Minh',
  'Atlantic/Faeroe': 'Atlantic/Faroe', 'Europe/Kiev': 'Europe/Kyiv', 'Pacific/Enderbury': 'Pacific/Kanton', 'Pacific/Ponape': 'Pacific/Pohnpei',
  'Pacific/Truk': 'Pacific/Chuuk',
};
const nameOf = ({ timeZone }) => RENAMED[timeZone] ?? timeZone;

// This browser's zone.
export const localZone = () => nameOf(Intl.DateTimeFormat().resolvedOptions()) || 'UTC';

// The names of all zones that the browser lists, without UTC.
export const names = () => Intl.supportedValuesOf('timeZone').map((timeZone) => nameOf({ timeZone })).filter((name) => name !== 'UTC').sort();

const minutesOf = (text) => {
  const found = /^([+-])(\d\d):([0-5]\d)$/.exec(text);
  return found && (Number(found[2]) * 60 + Number(found[3])) * (found[1] === '-' ? -1 : 1);
};

// The zone of a text, or null if there is no such zone. A fixed offset is from -12:00 to +14:00. A name gets its usual case.
export function parsed(given) {
  const minutes = minutesOf(given);
  if (minutes !== null) return minutes < -720 || minutes > 840 ? null : minutes ? given : 'UTC';
  if (!/^[A-Za-z][A-Za-z0-9_+/-]*$/.test(given)) return null;
  try {
    return nameOf(new Intl.DateTimeFormat('en', { timeZone: given }).resolvedOptions());
  } catch {
    return null;
  }
}

// The label of a zone: `UTC+05:30`, `UTC`, or the name.
export const label = (zone) => (minutesOf(zone) === null ? zone.replaceAll('_', ' ') : `UTC${zone.replace('-', '−')}`);

// -- offsets -----------------------------------------------------------------------------------------------------------

const formats = new Map(); // zone -> Intl.DateTimeFormat
const weeks = new Map(); // zone -> Map of the number of a week since 1970 -> {before, after, at}

// Milliseconds that the clocks of a zone are ahead of UTC at a time.
export function offsetAt(time, zone) {
  if (zone === 'UTC') return 0;
  const minutes = minutesOf(zone);
  if (minutes !== null) return minutes * 60_000;
  const { before, after, at } = weekOf(Math.floor(time / WEEK), zone);
  return time < at ? before : after;
}

// The offsets at the start and at the end of a week, and the time of the transition between them. No zone changes its offset
// twice in a week. A week is computed once, because Intl takes microseconds for each time.
function weekOf(number, zone) {
  if (!weeks.has(zone)) weeks.set(zone, new Map());
  const known = weeks.get(zone);
  if (!known.has(number)) known.set(number, computedWeek(number * WEEK, zone));
  return known.get(number);
}

function computedWeek(start, zone) {
  let [low, high] = [start, start + WEEK - 1000];
  const [before, after] = [computedOffset(low, zone), computedOffset(high, zone)];
  if (before === after) return { before, after, at: start };
  while (high - low > 1000) {
    const middle = Math.floor((low + high) / 2000) * 1000;
    if (computedOffset(middle, zone) === before) low = middle;
    else high = middle;
  }
  return { before, after, at: high };
}

function computedOffset(time, zone) {
  if (!formats.has(zone)) {
    formats.set(zone, new Intl.DateTimeFormat('en-US', {
      timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric', era: 'short',
    }));
  }
  const parts = Object.fromEntries(formats.get(zone).formatToParts(time).map(({ type, value }) => [type, value]));
  const year = parts.era === 'BC' ? 1 - parts.year : Number(parts.year);
  const ahead = Date.UTC(year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) - Math.floor(time / 1000) * 1000;
  return Math.trunc(ahead / 60_000) * 60_000; // Liberia's offset had seconds until 1972
}

// The first time at which the clocks of a zone show `local` or, if they skip it, the first time after the gap. `local` is in
// ms since 1970-01-01 00:00 on these clocks.
export function timeOf(local, zone) {
  const [one, other] = [local - DAY, local + DAY].map((time) => local - offsetAt(time, zone)).sort((a, b) => a - b);
  for (const time of [one, other]) if (time + offsetAt(time, zone) === local) return time;
  const { before, after, at } = weekOf(Math.floor(one / WEEK), zone); // `one` is before the gap
  return before === after ? weekOf(Math.floor(other / WEEK), zone).at : at;
}

let day = {}; // the last result of dayOf()

// The day that contains a time: {zone, midnight, start, end}. `midnight` is the local one, as if it were in UTC. A day starts at
// the first midnight if the clocks show two, and after the gap if they skip it.
export function dayOf(time, zone) {
  if (zone === day.zone && time >= day.start && time < day.end) return day;
  const next = Math.floor((time + offsetAt(time, zone)) / DAY) * DAY + DAY;
  // The clocks can show the end of a day again, after the next day has started.
  const midnight = timeOf(next, zone) <= time ? next : next - DAY;
  day = { zone, midnight, start: timeOf(midnight, zone), end: timeOf(midnight + DAY, zone) };
  return day;
}

// -- as text -----------------------------------------------------------------------------------------------------------

const pad = (number, places = 2) => String(number).padStart(places, '0');

// A time in a zone, with its date if that is not today's: `12:00:31`, `01-30 12:00:31` or `2025-01-30 12:00:31`. `part` is
// 'second' or 'minute'.
export function short(time, zone, today, part = 'second') {
  const { date, [part]: clock } = parts(time, zone);
  if (date === today) return clock;
  return `${date.slice(0, 5) === today.slice(0, 5) ? date.slice(5) : date} ${clock}`;
}

// The parts of a time in a zone, as text.
export function parts(time, zone) {
  const local = new Date(time + offsetAt(time, zone));
  return {
    year: String(local.getUTCFullYear()),
    month: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'][local.getUTCMonth()],
    day: String(local.getUTCDate()),
    weekday: ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'][local.getUTCDay()],
    date: `${local.getUTCFullYear()}-${pad(local.getUTCMonth() + 1)}-${pad(local.getUTCDate())}`,
    minute: `${pad(local.getUTCHours())}:${pad(local.getUTCMinutes())}`,
    second: `${pad(local.getUTCHours())}:${pad(local.getUTCMinutes())}:${pad(local.getUTCSeconds())}`,
  };
}
