// Formats amounts. They are exact decimal strings, and the page shows their digits. Only the drawing uses numbers, which need
// no more precision than a pixel.

const GROUP = '\u202f'; // narrow no-break space
const SUBSCRIPTS = '₀₁₂₃₄₅₆₇₈₉';
const SIGNIFICANT = 7;

// Separates the thousands of a whole number.
export const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, GROUP);

// Splits a decimal into [head, tail]. The head has the first significant digits, the tail all others.
export function split(decimal) {
  const [whole, fraction = ''] = decimal.split('.');
  const zeros = whole === '0' ? /^0*/.exec(fraction)[0].length : -whole.length;
  const shown = Math.max(zeros + SIGNIFICANT, 2);
  if (fraction.length <= shown) return [grouped(whole) + (fraction && `.${fraction}`), ''];
  return [`${grouped(whole)}.${fraction.slice(0, shown)}`, fraction.slice(shown)];
}

// By how many places the decimal point must move so that prices near `decimal` become numbers near 1. The chart library
// computes with such numbers without a visible loss. 0 if `decimal` is neither very small nor very large.
export function scaleOf(decimal) {
  const power = Math.floor(Math.log10(Number(decimal)));
  return power >= -3 && power <= 7 ? 0 : -power;
}

export const scaled = (decimal, places) => Number(places ? `${decimal}e${places}` : decimal);

// The decimal places that show SIGNIFICANT - 1 digits of a number.
export function placesFor(number) {
  if (!(number > 0)) return 2;
  return Math.min(Math.max(SIGNIFICANT - 2 - Math.floor(Math.log10(number)), 0), 12);
}

// The text of a scaled number as a price: `2 503.20`, `0.0₁₇1234` (seventeen zeros follow the point), `1.5e18`.
export function price(number, places, scale) {
  const fixed = Math.abs(number).toFixed(places);
  const sign = number < 0 && Number(fixed) ? '−' : '';
  if (!scale) {
    const [whole, fraction] = fixed.split('.');
    return `${sign}${grouped(whole)}${fraction ? `.${fraction}` : ''}`;
  }
  if (scale < 0) return `${sign}${fixed}e${-scale}`;
  if (!Number(fixed)) return '0';
  const [whole, fraction = ''] = fixed.split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  const zeros = scale + places - digits.length;
  return `${sign}0.0${[...String(zeros)].map((digit) => SUBSCRIPTS[digit]).join('')}${digits}`;
}

// The exact difference of two decimals. The first one is not the smaller one.
export function minus(one, other) {
  const [[whole, fraction = ''], [otherWhole, otherFraction = '']] = [one.split('.'), other.split('.')];
  const places = Math.max(fraction.length, otherFraction.length);
  const difference = BigInt(whole + fraction.padEnd(places, '0')) - BigInt(otherWhole + otherFraction.padEnd(places, '0'));
  const digits = String(difference).padStart(places + 1, '0');
  const rest = digits.slice(digits.length - places).replace(/0+$/, '');
  return digits.slice(0, digits.length - places) + (rest && `.${rest}`);
}

// The change from one decimal to another, as `+0.27 %`.
export function change(from, to) {
  const percent = (Number(to) / Number(from) - 1) * 100;
  if (!Number.isFinite(percent)) return '';
  const fixed = Math.abs(percent) >= 1000 ? percent.toPrecision(3) : percent.toFixed(2);
  return `${fixed.replace('-', '−').replace(/^(?=\d)/, '+').replace(/^[+−](?=0\.00$)/, '')} %`;
}

// A decimal in few characters, cut after its first significant digits: `2 503.123`, `0.0₁₇1234`, `1.5e18`.
export function short(decimal) {
  const [whole, fraction = ''] = decimal.split('.');
  const zeros = whole === '0' ? /^0*/.exec(fraction)[0].length : 0;
  if (whole.length > 8) return `${`${whole[0]}.${whole.slice(1, SIGNIFICANT - 1)}`.replace(/\.?0*$/, '')}e${whole.length - 1}`;
  if (zeros < 3) return split(decimal)[0];
  return `0.0${[...String(zeros)].map((digit) => SUBSCRIPTS[digit]).join('')}${fraction.slice(zeros, zeros + SIGNIFICANT - 1)}`;
}
