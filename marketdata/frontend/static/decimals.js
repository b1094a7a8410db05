// Formats amounts. They are exact decimal strings, and the page shows their digits. Only the drawing uses numbers, which need
// no more precision than a pixel.

const GROUP = '\u202f'; // narrow no-break space
const SUBSCRIPTS = '₀₁₂₃₄₅₆₇₈₉';
const SIGNIFICANT = 7;
const MANY_ZEROS = 5; // from this many zeros after the point on, their number is written below the line
const MAX_PERCENT_DIGITS = 5;
const LARGE = 1e5; // from this amount on, a list has it like `191.7M`
const UNITS = ['', 'K', 'M', 'B', 'T'];
const EXPONENTIAL = 8; // from this power of ten on, a number is written like 1.5e18

// The decimal of a typed text, or null for other text.
export const parsed = (text) => (/^\d{1,30}(\.\d{1,30})?$/.test(text.trim()) ? text.trim() : null);

// Separates the thousands of a whole number.
export const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, GROUP);

// The text of a decimal below one: `zeros` zeros and then `digits` follow the point.
const afterZeros = (zeros, digits) => `0.0${[...String(zeros)].map((digit) => SUBSCRIPTS[digit]).join('')}${digits}`;

// Splits a decimal into [head, tail]. The head has the first significant digits, the tail all others.
export function split(decimal) {
  const [whole, fraction = ''] = decimal.split('.');
  const zeros = whole === '0' ? /^0*/.exec(fraction)[0].length : -whole.length;
  const shown = Math.max(zeros + SIGNIFICANT, 2);
  if (fraction.length <= shown) return [grouped(whole) + (fraction && `.${fraction}`), ''];
  return [`${grouped(whole)}.${fraction.slice(0, shown)}`, fraction.slice(shown)];
}

// The text of a number with `places` decimal places, fewer than zero for a round one: `2 503.20`, `0.0₁₇1234` (seventeen zeros
// follow the point), `1.5e18`.
export function text(number, places) {
  const size = Math.abs(number);
  const sign = number < 0 ? '−' : '';
  const power = powerOf(size);
  if (power >= EXPONENTIAL) return sign + size.toExponential(Math.min(Math.max(power + places, 0), 100)).replace('e+', 'e');
  const fixed = size.toFixed(Math.min(Math.max(places, 0), 100));
  if (!Number(fixed)) return places > SIGNIFICANT ? '0' : fixed;
  const [whole, fraction = ''] = fixed.split('.');
  const zeros = /^0*/.exec(fraction)[0].length;
  if (whole === '0' && zeros >= MANY_ZEROS) return sign + afterZeros(zeros, fraction.slice(zeros));
  return `${sign}${grouped(whole)}${fraction && `.${fraction}`}`;
}

// The decimal places that show SIGNIFICANT - 1 digits of a number.
export const placesFor = (number) => (number ? SIGNIFICANT - 2 - powerOf(Math.abs(number)) : 2);

// The n of the greatest 10^n that is not greater than a positive number.
export const powerOf = (number) => (number > 0 ? Number(number.toExponential().split('e')[1]) : 0);

// A part of one as `+0.27 %`, with the given decimal places, or with fewer if it would have more than five digits.
export function percent(part, places = 2) {
  const size = Math.abs(part * 100);
  const fixed = text(part * 100, size < 1 ? places : Math.min(places, Math.max(MAX_PERCENT_DIGITS - 1 - powerOf(size), 0)));
  return `${fixed.replace(/^(?=\d)/, '+').replace(/^[+−](?=[0.]*$)/, '')} %`;
}

// Two decimals as whole numbers of the same unit, and the number of their decimal places.
function aligned(...pair) {
  const parts = pair.map((decimal) => decimal.split('.'));
  const places = Math.max(...parts.map(([, fraction = '']) => fraction.length));
  return [...parts.map(([whole, fraction = '']) => BigInt(whole + fraction.padEnd(places, '0'))), places];
}

// A negative number, 0 or a positive number if the first decimal is less than the other one, equals it or is greater: exact.
export function compare(one, other) {
  const difference = Number(one) - Number(other);
  if (difference || one === other) return difference;
  const [units, otherUnits] = aligned(one, other);
  return Number(units > otherUnits) - Number(units < otherUnits);
}

// The exact difference of two decimals. The first one is not the smaller one.
export function minus(one, other) {
  const [units, otherUnits, places] = aligned(one, other);
  const digits = String(units - otherUnits).padStart(places + 1, '0');
  const rest = digits.slice(digits.length - places).replace(/0+$/, '');
  return digits.slice(0, digits.length - places) + (rest && `.${rest}`);
}

// The change from one decimal to another, as `+0.27 %`.
export function change(from, to) {
  const part = Number(to) / Number(from) - 1;
  return Number.isFinite(part) ? percent(part, part >= 10 ? 0 : 2) : '';
}

// An amount of a list, a decimal, in few characters: `2 503.123`, `191.7M`, `1.5e18`.
export function amount(decimal) {
  const number = Number(Number(decimal).toPrecision(4));
  const unit = Math.floor(powerOf(number) / 3);
  if (number < LARGE || unit >= UNITS.length) return short(decimal);
  return `${(number / 1000 ** unit).toFixed(1)}${UNITS[unit]}`;
}

// A decimal in few characters, cut after its first significant digits: `2 503.123`, `0.0₁₇1234`, `1.5e18`.
export function short(decimal) {
  const [whole, fraction = ''] = decimal.split('.');
  const zeros = whole === '0' ? /^0*/.exec(fraction)[0].length : 0;
  if (whole.length > 8) return `${`${whole[0]}.${whole.slice(1, SIGNIFICANT - 1)}`.replace(/\.?0*$/, '')}e${whole.length - 1}`;
  if (zeros < MANY_ZEROS) return split(decimal)[0];
  return afterZeros(zeros, fraction.slice(zeros, zeros + SIGNIFICANT - 1));
}
