// Maps prices to the numbers that the chart library draws, and makes the labels from the prices. The library draws the prices
// themselves, or their logarithms to base 10: its own logarithmic scale adds a constant to each price, which flattens small
// ones. Its marks fail for very small prices, so the marks of the axis are made here.

import * as decimals from './decimals.js';

const MIN_GAP = 30; // pixels between two marks
const MIN_MARKS = 5; // a low axis has marks with less between them
const CLOSEST = 1e-9; // the least visible part of a price: closer ones are one number for the library
const FEW = 3; // digits
const ROUNDING = 1e-9; // of a step
const FLAT = 0.01; // how much of a price is visible on each side, if all visible prices are the same
// Which multiples of each power of ten have a mark on a logarithmic axis, from many to few.
const FACTORS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3]];

export class PriceScale {
  // There are no marks below `lowest`. With `isMirrored`, numbers below zero are drawn downwards, but have no sign.
  constructor({ lowest = -Infinity, isMirrored = false } = {}) {
    this.lowest = lowest;
    this.text = (number, places) => decimals.text(isMirrored ? Math.abs(number) : number, places);
    this.kind = 'linear'; // or 'log' or 'percent'
    this.base = NaN; // the price that is 0 %
    this.places = 0; // the decimal places of the marks
    // The library's own marks are empty, because axis_marks.js draws the marks.
    this.format = { type: 'custom', minMove: 0.01, formatter: (drawn) => this.label(drawn), tickmarksFormatter: (marks) => marks.map(() => '') };
  }

  drawn(price) { return this.kind === 'log' ? Math.log10(price) : Number(price); }

  price(drawn) { return this.kind === 'log' ? 10 ** drawn : drawn; }

  // The text of one number. It has enough digits of the number itself, and those of the marks if these are a few more.
  label(drawn) {
    const price = this.price(drawn);
    if (this.kind === 'percent') return decimals.percent(price / this.base - 1, Math.max(this.places, 2));
    const places = decimals.placesFor(price);
    return this.text(price, this.kind === 'log' ? places : Math.min(Math.max(places, this.places), places + FEW));
  }

  // The marks between two drawn numbers on an axis of that many pixels, as [{at, text}]. `at` is a drawn number.
  marks(low, high, pixels) {
    if (!(high > low)) return [];
    const gap = (high - low) / Math.max(pixels / MIN_GAP, MIN_MARKS);
    const least = this.kind === 'log' ? low : Math.max(low, this.lowest);
    if (this.kind === 'percent') return this.#percentMarks(least, high, gap);
    return this.kind === 'log' ? logMarks(low, high, gap) : this.#linearMarks(least, high, gap);
  }

  #linearMarks(low, high, gap) {
    const step = niceStep(gap);
    this.places = -decimals.powerOf(step);
    return multiples(low, high, step).map((at) => ({ at, text: this.text(at, this.places) }));
  }

  #percentMarks(low, high, gap) {
    const percent = (price) => (price / this.base - 1) * 100;
    const step = niceStep(gap / this.base * 100);
    this.places = Math.max(-decimals.powerOf(step), 0);
    return multiples(percent(low), percent(high), step).map((each) => ({ at: this.base * (1 + each / 100), text: decimals.percent(each / 100, this.places) }));
  }

  // The drawn range to show for the drawn range of the visible prices. If all visible prices are the same, the range is
  // wider. Zeros stay, so that they do not hide small values of another series; the library widens them if there is no
  // other.
  widened(low, high) {
    if (this.kind === 'log') return high - low > CLOSEST ? [low, high] : [low + Math.log10(1 - FLAT), high + Math.log10(1 + FLAT)];
    const size = Math.max(Math.abs(low), Math.abs(high));
    return high - low >= size * CLOSEST ? [low, high] : [low - size * FLAT, high + size * FLAT];
  }
}

// The least of 1, 2 and 5 times a power of ten that is not less than `least`.
function niceStep(least) {
  const power = decimals.powerOf(least);
  return [1, 2, 5, 10].map((each) => Number(`${each}e${power}`)).find((step) => step >= least);
}

// The multiples of a step from `low` to `high`. One that differs from an end only by rounding belongs to them.
function multiples(low, high, step) {
  const first = Math.ceil(low / step - ROUNDING);
  const count = Math.max(Math.floor(high / step + ROUNDING) - first + 1, 0);
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(15)));
}

// Marks on a logarithmic axis, on which two marks are at least `gap` apart. A range within a power of ten has marks like those
// of a linear axis. A wider one has them at multiples of powers of ten, a very wide one only at some powers.
function logMarks(low, high, gap) {
  const mark = (price, places) => ({ at: Math.log10(price), text: decimals.text(price, places) });
  const [least, most] = [10 ** low, 10 ** high];
  if (high - low < 1) {
    const step = niceStep(most * (1 - 10 ** -gap));
    return multiples(least, most, step).map((price) => mark(price, -decimals.powerOf(step)));
  }
  if (gap > 1) return multiples(low, high, Math.ceil(gap)).map((power) => mark(Number(`1e${power}`), -power));
  const factors = FACTORS.find((each) => closest(each) >= gap) ?? [1];
  return multiples(Math.floor(low), high, 1).flatMap((power) => factors.map((factor) => ({ power, factor, price: Number(`${factor}e${power}`) })))
    .filter(({ price }) => price >= least && price <= most).map(({ power, factor, price }) => mark(price, factor % 1 ? 1 - power : -power));
}

// The distance of the closest two marks at these multiples of each power of ten.
const closest = (factors) => Math.min(...factors.map((factor, at) => Math.log10((factors[at + 1] ?? 10) / factor)));
