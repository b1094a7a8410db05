// Draws annotations over the sheets. Each part of a sheet has a separate layer with the part's size, and all positions
// in it are percentages. So an annotation keeps its place at any zoom, in any layout, and when the line breaks change.

import { element } from './dom.js';
import { state } from './state.js';

const SVG = 'http://www.w3.org/2000/svg';
const COLOR = /^#[0-9a-f]{6}$/i;
const NAMED = ['current', 'accent', 'good', 'bad', 'ink'];
const RIGHT = 0.6; // of the part's width; a text that begins farther right extends to the left

// The style sheet of the sheets has the other styles.
export const LAYER_STYLE = `
.annotation.chosen { stroke-dasharray: 6 4; }
.annotation.marker.chosen { stroke: var(--pen); }
.said.chosen { outline: 2px dashed var(--pen); outline-offset: 1px; }
.part.aimed { outline: 2px dashed var(--accent); outline-offset: 2px; }
.drawing, .drawing * { cursor: crosshair !important; touch-action: none; user-select: none; }
.choosing .annotation > *, .choosing .said { pointer-events: auto; cursor: pointer; }
@media (forced-colors: active) { :is(.annotation, .said).chosen { --pen: Highlight !important; } }
`;

// Draw the annotations of the page in `holder`.
export function drawAnnotations(holder) {
  for (const layer of holder.querySelectorAll('.annotations')) layer.remove();
  const shown = state.annotations.filter(({ visible, style }) => visible && Object.hasOwn(SHAPES, style.kind));
  const byPart = Map.groupBy(shown, ({ target }) => target.part);
  if (!byPart.size) return;
  for (const part of holder.querySelectorAll('.part')) {
    const found = byPart.get(part.dataset.part);
    if (found) part.append(layerOf(found, part));
  }
}

// Mark the chosen annotation, and bring its part into sight.
export function markChosen(holder) {
  for (const each of holder.querySelectorAll('.annotations [data-id]')) each.classList.toggle('chosen', each.dataset.id === state.chosen);
  holder.querySelector('.annotation.chosen')?.closest('.part').scrollIntoView({ block: 'nearest' });
}

// A part may be split between sheets, or have wrapped lines. The vertical positions of an annotation are fractions of
// the whole part (`shares`). Each is at the fraction with the same index in `heights` of this piece; positions in
// between are interpolated.
export function pieceOf({ dataset: { shares = '0 1', heights = '0 1' } }) {
  return { shares: shares.split(' ').map(Number), heights: heights.split(' ').map(Number) };
}

// Map `value` from the scale `from` to the scale `to` by linear interpolation.
export function between(value, from, to) {
  const at = Math.min(Math.max(from.findLastIndex((each) => each <= value), 0), from.length - 2);
  return to[at] + ((value - from[at]) / (from[at + 1] - from[at])) * (to[at + 1] - to[at]);
}

// A layer, appended to `part`, with the annotations that `part` shows.
export function layerOf(annotations, part) {
  const piece = pieceOf(part);
  const drawing = svg('svg', { 'aria-hidden': 'true' });
  const { shares, heights } = piece;
  if (shares[0] > 0 || shares.at(-1) < 1) drawing.style.clipPath = `inset(${percent(heights[0])} -3px ${percent(1 - heights.at(-1))})`;
  const drawn = annotations.filter(({ geometry: { points } }) => isOn(piece, points.map(([, y]) => y)));
  const said = annotations.filter((each) => each.text.trim() && isOn(piece, [Number(Number(placeOf(each)[1]).toFixed(6))]));
  drawing.append(...drawn.map((each) => drawingOf(within(piece, each))));
  return element('div', { class: 'annotations' }, drawing, ...said.map((each) => textOf(within(piece, each))));
}

// Whether a shape between the smallest and the largest of these heights is on the piece. A shape that ends where the
// piece begins is not.
function isOn({ shares }, places) {
  const [first, last, top, bottom] = [shares[0], shares.at(-1), Math.min(...places), Math.max(...places)];
  return (bottom > first || first === 0) && (top < last || bottom <= last || last === 1);
}

// The annotation with its positions as fractions of the piece's size.
function within({ shares, heights }, annotation) {
  const { geometry: { points }, target } = annotation;
  const [top, bottom] = [target.y, target.y + target.h].map((y) => between(y, shares, heights));
  const moved = points.map(([x, y]) => [x, between(y, shares, heights)]);
  return { ...annotation, geometry: { points: moved }, target: { ...target, y: top, h: bottom - top } };
}

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const percent = (part) => `${(100 * part).toFixed(3)}%`;

// Colours and widths are set as single properties, never as a style text, so that an annotation cannot add other
// styles.
function withPen(made, { id, style }) {
  const { color = NAMED[0], width = 5 } = style;
  made.style.setProperty('--pen', COLOR.test(color) ? color : `var(--${NAMED.includes(color) ? color : NAMED[0]})`);
  made.style.setProperty('--pen-width', String(Number(width)));
  if (id) made.dataset.id = id;
  if (id && id === state.chosen) made.classList.add('chosen');
  return made;
}

function drawingOf(annotation) {
  const { style: { kind }, geometry: { points } } = annotation;
  return withPen(svg('g', { class: `annotation ${kind}` }, ...SHAPES[kind](points)), annotation);
}

const SHAPES = {
  box: ([from, to]) => [rectangle(from, to)],
  marker: ([from, to]) => [rectangle(from, to)],
  underline: ([from, to]) => [line(from, to)],
  arrow: ([from, to]) => arrow(line(from, to)),
  callout: ([text, at]) => (at ? [line(text, at), svg('circle', { class: 'head', cx: percent(at[0]), cy: percent(at[1]), r: 3 })] : []),
  freehand: (points) => [svg('svg', { viewBox: '0 0 1 1', preserveAspectRatio: 'none', overflow: 'visible' },
    svg('polyline', { points: points.map(([x, y]) => `${Number(x)},${Number(y)}`).join(' ') }))],
};

const line = ([x1, y1], [x2, y2]) => svg('line', { x1: percent(x1), y1: percent(y1), x2: percent(x2), y2: percent(y2) });

function rectangle([x1, y1], [x2, y2]) {
  const size = { width: percent(Math.abs(x2 - x1)), height: percent(Math.abs(y2 - y1)) };
  return svg('rect', { x: percent(Math.min(x1, x2)), y: percent(Math.min(y1, y2)), ...size });
}

// A line with an arrow head. The head is an SVG marker, because its direction depends on the size of the part.
let heads = 0;
function arrow(shaft) {
  const id = `head-${(heads += 1)}`;
  const tip = svg('marker', { id, viewBox: '0 0 10 10', refX: 8, refY: 5, markerWidth: 5, markerHeight: 5, orient: 'auto' },
    svg('path', { class: 'head', d: 'M0 0 10 5 0 10z' }));
  shaft.setAttribute('marker-end', `url(#${id})`);
  return [tip, shaft];
}

// The text is at the first point of a callout, and below any other annotation.
const placeOf = ({ style: { kind }, geometry: { points }, target: { x, y, h } }) => (kind === 'callout' ? points[0] : [x, y + h]);

function textOf(annotation) {
  const { style: { kind }, target, text } = annotation;
  const [x, y] = placeOf(annotation);
  const made = withPen(element('p', { class: 'said', dir: 'auto' }, text), annotation);
  if (x > RIGHT) made.style.right = percent(1 - (kind === 'callout' ? x : target.x + target.w));
  else made.style.left = percent(x);
  made.style.top = percent(y);
  return made;
}
