// A small line of prices without an axis.

const [WIDTH, HEIGHT] = [60, 24];
const MARGIN = 2;
const SVG = 'http://www.w3.org/2000/svg';

// The line is hidden from screen readers, because the change beside it says the same.
export function sparkline() {
  const made = document.createElementNS(SVG, 'svg');
  made.append(document.createElementNS(SVG, 'polyline'));
  for (const [name, value] of Object.entries({ class: 'sparkline', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, 'aria-hidden': 'true' })) made.setAttribute(name, value);
  return made;
}

// Draws `prices`, decimals or null where there is none.
export function drawSparkline(made, prices) {
  const known = prices.map((price, at) => ({ price: Number(price), at, isKnown: price !== null })).filter(({ isKnown }) => isKnown);
  const all = known.map(({ price }) => price);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const y = (price) => (most > least ? (most - price) / (most - least) : 0.5) * (HEIGHT - 2 * MARGIN) + MARGIN;
  const x = (at) => at / (prices.length - 1) * (WIDTH - 2 * MARGIN) + MARGIN;
  made.firstChild.setAttribute('points', known.map(({ price, at }) => `${x(at).toFixed(1)},${y(price).toFixed(1)}`).join(' '));
}
