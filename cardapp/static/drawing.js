// Draws a new annotation on the sheets: with the mouse by pressing and dragging; with the keyboard by choosing a part and,
// if wanted, a region of it.

import { between, layerOf, pieceOf } from './annotation_layer.js';

const STEP = 0.05; // of the part; by this much a key moves or resizes the region
const LEAST_PX = 4; // a shorter drag is a click
const MOST_POINTS = 500;
const WHOLE = { x: 0, y: 0, w: 1, h: 1 };
const AIMS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
const WAYS = { ArrowRight: ['x', 'w', 1], ArrowLeft: ['x', 'w', -1], ArrowDown: ['y', 'h', 1], ArrowUp: ['y', 'h', -1] };

let holder;
let drawing = null; // { style, text, done, aimed, told } while something is drawn
let aim = null; // the part that the keyboard has chosen
let region = WHOLE;
let drag = null; // { part, points } while a mouse button is pressed
let preview = null;
let hasDrawn = false; // the click that ends a drag must not open a link

export function attach(sheets) {
  holder = sheets;
  holder.addEventListener('pointerdown', press);
  holder.addEventListener('pointermove', follow);
  holder.addEventListener('pointerup', release);
  holder.addEventListener('pointercancel', () => { drag = null; unmark(); });
  holder.addEventListener('click', (event) => {
    if (drawing || hasDrawn) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
    hasDrawn = false;
  }, true);
}

export const isOpen = () => drawing !== null;

// Begin to draw with `style` and `text`. `done` gets `{ target, geometry }`, or null if nothing was drawn. `aimed` gets the
// name of the part that the keyboard has chosen.
export function begin(wanted) {
  cancel();
  drawing = wanted;
  holder.classList.add('drawing');
  aimAt(holder.querySelector('.part.here') ?? inSight());
}

export const cancel = () => finish(null);

function finish(drawn) {
  if (!drawing) return;
  const { done } = drawing;
  [drawing, drag] = [null, null];
  holder.classList.remove('drawing');
  unmark();
  aim = null;
  done(drawn);
}

// -- by mouse ------------------------------------------------------------------------------------------------------

function press(event) {
  const part = drawing && event.button === 0 ? partOf(event) : null;
  if (!part) return;
  event.preventDefault();
  part.setPointerCapture(event.pointerId);
  drag = { part, points: [pointIn(part, event)], left: event.clientX, top: event.clientY, isLong: false };
}

const partOf = (event) => event.composedPath().find((node) => node instanceof Element && node.classList.contains('part'));

const share = (at, from, size) => Math.min(1, Math.max(0, Number(((at - from) / size).toFixed(4))));

function pointIn(part, { clientX, clientY }) {
  const box = part.getBoundingClientRect();
  return [share(clientX, box.left, box.width), share(clientY, box.top, box.height)];
}

function follow(event) {
  if (!drag) return;
  drag.isLong ||= Math.hypot(event.clientX - drag.left, event.clientY - drag.top) >= LEAST_PX;
  drag.points.push(pointIn(drag.part, event));
  if (drag.points.length > MOST_POINTS) drag.points = drag.points.filter((_, at) => at % 2 === 0);
  show(drag.part, dragged());
}

function dragged() {
  const [from, to] = [drag.points[0], drag.points.at(-1)];
  switch (drawing.style.kind) {
    case 'freehand': return drag.points;
    case 'underline': return [from, [to[0], from[1]]];
    case 'callout': return drag.isLong ? [to, from] : [from];
    default: return [from, to];
  }
}

function release() {
  if (!drag) return;
  const points = dragged();
  const isEnough = drag.isLong || drawing.style.kind === 'callout';
  const { part } = drag;
  drag = null;
  if (!isEnough) return unmark();
  hasDrawn = true;
  finish(record(part, points));
}

// -- by keyboard ---------------------------------------------------------------------------------------------------

// Whether the drawing has used the key.
export function takesKey(event) {
  if (!drawing || event.altKey || event.metaKey) return false;
  if (event.key === 'Escape') cancel();
  else if (event.key === 'Enter' && aim) finish(record(aim, pointsOf(region)));
  else if (event.key in WAYS && event.shiftKey) change(event.key, false);
  else if (event.key in WAYS && event.ctrlKey) change(event.key, true);
  else if (event.key in AIMS) aimBy(AIMS[event.key]);
  else return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

const parts = () => [...holder.querySelectorAll('.part')];

function inSight() {
  const view = holder.getRootNode().host.parentElement.getBoundingClientRect();
  return parts().find((part) => part.getBoundingClientRect().top >= view.top) ?? parts()[0];
}

function aimBy(delta) {
  const all = parts();
  aimAt(all[Math.min(all.length - 1, Math.max(0, all.indexOf(aim) + delta))]);
}

function aimAt(part) {
  unmark();
  [aim, region] = [part, WHOLE];
  if (!part) return;
  part.classList.add('aimed');
  part.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  show(part, pointsOf(region));
  drawing.aimed(part.dataset.part);
}

// Move the region by a step, or make it larger or smaller. It stays within the part.
function change(key, isSize) {
  const [start, size, sign] = WAYS[key];
  const [least, most] = isSize ? [STEP, 1 - region[start]] : [0, 1 - region[size]];
  const name = isSize ? size : start;
  region = { ...region, [name]: Number(Math.min(most, Math.max(least, region[name] + sign * STEP)).toFixed(4)) };
  show(aim, pointsOf(region));
}

function pointsOf({ x, y, w, h }) {
  const [right, bottom, middle] = [x + w, y + h, [x + w / 2, y + h / 2]];
  switch (drawing.style.kind) {
    case 'underline': return [[x, bottom], [right, bottom]];
    case 'arrow': return [[right, bottom], [x, y]];
    case 'callout': return [[x, bottom], middle];
    case 'freehand': return ring(middle, w / 2, h / 2);
    default: return [[x, y], [right, bottom]];
  }
}

function ring([x, y], width, height) {
  const turn = (part) => (2 * Math.PI * part) / 32;
  return Array.from({ length: 33 }, (_, part) => [x + width * Math.cos(turn(part)), y + height * Math.sin(turn(part))])
    .map((point) => point.map((place) => share(place, 0, 1)));
}

// -- for both ------------------------------------------------------------------------------------------------------

function show(part, points) {
  preview?.remove();
  preview = layerOf([{ ...record(part, points), style: drawing.style, text: drawing.text }], part);
  part.append(preview);
}

function unmark() {
  preview?.remove();
  preview = null;
  aim?.classList.remove('aimed');
}

// The stored form: vertical positions are fractions of the whole part, of which `part` may be a piece.
function record(part, drawn) {
  const { shares, heights } = pieceOf(part);
  const shareAt = (y) => between(Math.min(heights.at(-1), Math.max(heights[0], y)), heights, shares);
  const points = drawn.map(([x, y]) => [x, Number(shareAt(y).toFixed(6))]);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const size = (places) => Number((Math.max(...places) - Math.min(...places)).toFixed(6));
  return {
    target: { part: part.dataset.part, x: Math.min(...xs), y: Math.min(...ys), w: size(xs), h: size(ys) },
    geometry: { points },
  };
}
