// Time zones. As in the API, a zone is an offset from UTC; here it is in minutes.

const OTHERS = [-720, -660, -600, -570, -540, -480, -420, -360, -300, -240, -210, -180, -120, -60, 0, 60, 120, 180, 210,
  240, 270, 300, 330, 345, 360, 390, 420, 480, 525, 540, 570, 600, 630, 660, 720, 765, 780, 840];

// The text of an offset, like `+05:30`.
export function text(minutes) {
  const size = Math.abs(minutes);
  const two = (number) => String(number).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

// The label of a zone, like `UTC+05:30` or `UTC`.
export const label = (minutes) => (minutes ? `UTC${text(minutes).replace('-', '−')}` : 'UTC');

// The minutes of a text like `+05:30`; null if the text is not an offset from -12:00 to +14:00.
export function parsed(given) {
  const found = /^([+-])(\d\d):([0-5]\d)$/.exec(given);
  if (!found) return null;
  const minutes = (Number(found[2]) * 60 + Number(found[3])) * (found[1] === '-' ? -1 : 1);
  return minutes >= -720 && minutes <= 840 ? minutes : null;
}

// This machine's current offset.
export const localOffset = () => -new Date().getTimezoneOffset();

export const offered = (chosen) => [...new Set([...OTHERS, localOffset(), chosen])].sort((one, other) => one - other);

const pad = (number, places = 2) => String(number).padStart(places, '0');

// The parts of a time in a zone, as text.
export function parts(time, minutes) {
  const local = new Date(time + minutes * 60_000);
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
