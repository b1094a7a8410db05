// The worksheet: one page of the card at a time, in a shadow root with the style of the sheets. A page is a block with
// all its sheets. Zoom sets `--u`, the pixels per millimetre, so text stays sharp. The values of a stop are covered until
// the program has stopped there.

import { go, goBack, view } from './actions.js';
import { drawAnnotations, LAYER_STYLE, markChosen } from './annotation_layer.js';
import { choose } from './annotations.js';
import { isUncovered, showValues } from './answers.js';
import { get } from './api.js';
import { $, button, codeOf, element, fill } from './dom.js';
import * as drawing from './drawing.js';
import { isAway, keyOf, state, stopOf, subscribe } from './state.js';

const PX_PER_MM = 794 / 210;
const FLOW_BELOW = 680; // px; in a narrower column a fitted sheet flows
const FLOW_UNIT = 4.2; // px per millimetre of a sheet that flows; gives body text of 14 px
const MARGIN = 28; // px around a sheet
const cache = new Map(); // page index -> promise of its HTML
let root, scroller, holder, style, styled;
let shown = -1; // the page in the shadow root
let placed = { left: 0, top: 0 }; // the last scroll position that a script set, not the user

// `moved`: the position has changed before the page was opened, so it is shown instead of the saved scroll position.
export function start(moved) {
  scroller = $('scroller');
  root = $('sheets').attachShadow({ mode: 'open' });
  style = element('link', { rel: 'stylesheet', href: '/api/sheets/style.css' });
  styled = loaded(style);
  holder = element('div', { class: 'holder' });
  root.append(style, element('style', {}, OWN_STYLE + LAYER_STYLE), holder);
  drawing.attach(holder);
  root.addEventListener('click', onClick);
  scroller.addEventListener('scroll', onScroll, { passive: true });
  scroller.addEventListener('wheel', onWheel, { passive: false });
  new ResizeObserver(fit).observe(scroller);
  $('page-back').onclick = () => turn(-1);
  $('page-on').onclick = () => turn(1);
  $('zoom-in').onclick = () => zoom(1.15);
  $('zoom-out').onclick = () => zoom(1 / 1.15);
  $('fit').onclick = () => view({ viewer: { page: { fit: !state.viewer.viewer.page.fit } } });
  subscribe((changed) => {
    if (changed.has('catalog')) renew(); // the card's files have changed
    if (changed.has('viewer')) render();
    if (changed.has('navigation')) queueMicrotask(() => mark(true)); // after the foot, which takes its room from the sheets
    if (['viewer', 'navigation', 'isMapOpen'].some((name) => changed.has(name))) showWayBack();
    if (changed.has('annotations')) drawAnnotations(holder);
    if (changed.has('chosen')) markChosen(holder);
    if (changed.has('isExplainOpen')) holder.classList.toggle('choosing', state.isExplainOpen);
    if (['answers', 'session', 'teacher', 'progress'].some((name) => changed.has(name))) decorate(holder);
  });
  showWayBack();
  render(!moved);
}

const OWN_STYLE = `
.holder { padding: ${MARGIN}px; width: max-content; min-width: 100%; }
.holder.flow { width: auto; padding: 12px; }
.flow .sheet { background: var(--paper); }
.sheet { margin-bottom: ${MARGIN}px; }
.holder:not(.flow) .sheet { content-visibility: auto; } /* a sheet out of sight costs no layout */
.here, .here:focus { outline: calc(.5 * var(--u)) solid var(--current); outline-offset: calc(1.1 * var(--u)); border-radius: calc(.4 * var(--u)); }
.done .tick::after { content: "✓"; position: absolute; inset: -.28em 0 0 .08em; color: var(--accent); font-size: 1.1em; }
.cover { position: absolute; inset: 0; display: grid; place-items: center; border: 1px dashed var(--rule); border-radius: 3px;
  background: repeating-linear-gradient(135deg, var(--panel) 0 6px, var(--paper) 6px 12px); }
.part.covered > :not(.cover), .node.covered > .code { visibility: hidden; }
.cover button { font: 600 calc(3.1 * var(--u)) var(--text); color: var(--paper); background: var(--accent);
  border: 0; border-radius: calc(1 * var(--u)); padding: calc(1 * var(--u)) calc(2.4 * var(--u)); cursor: pointer; }
.cover button { color: var(--accent); background: var(--paper); border: 1px solid var(--accent); }
.flow .source { font-size: calc(.86 * var(--code-size) * var(--u)); }
@media (forced-colors: active) {
  .here { outline-color: Highlight; }
  .cover { background: Canvas; border: 2px dashed CanvasText; }
  .source .at { outline: 2px solid Highlight; outline-offset: -2px; }
}
`;

// -- which page ----------------------------------------------------------------------------------------------------

function fetchPage(index) {
  if (!cache.has(index)) {
    const request = get(`/api/sheets?page=${index}`);
    cache.set(index, request);
    request.catch(() => cache.get(index) === request && cache.delete(index));
  }
  return cache.get(index);
}

// Resolves when the style is there, or has failed: whether it is there.
const loaded = (link) => new Promise((resolve) => { link.onload = () => resolve(true); link.onerror = () => resolve(false); });

// The card's files have changed. If the new style cannot be loaded, the sheets keep their style, and the next change
// tries again.
async function renew() {
  cache.clear();
  const fresh = element('link', { rel: 'stylesheet', href: `/api/sheets/style.css?r=${state.control.card_revision}` });
  const attempt = (styled = loaded(fresh));
  style.after(fresh);
  shown = -1;
  underWay = null;
  render(true);
  if (await attempt) {
    style.remove();
    style = fresh;
  } else fresh.remove();
}

let underWay = null; // { index } of the page that is being fetched; each attempt has its own object

async function render(restore = false) {
  const { scroll } = state.viewer;
  const index = scroll.page_index;
  const { scale, viewer } = state.viewer;
  const zoomed = `${scale} ${viewer.page.fit}`;
  if (zoomed !== fitted) fit(); // not for each scroll event, because it measures the sheet
  $('page-number').textContent = `Page ${index + 1} of ${state.catalog.pages.length}`;
  $('page-back').disabled = index === 0;
  $('page-on').disabled = index === state.catalog.pages.length - 1;
  if (index === shown || index === underWay?.index) return;
  const attempt = (underWay = { index });
  try {
    const [page] = await Promise.all([fetchPage(index), styled]); // without the style the sheets have no height
    if (attempt === underWay) put(page.html, index, restore);
  } catch (failure) {
    if (attempt !== underWay) return;
    holder.replaceChildren(element('p', { class: 'failure' }, failure.message), button('Try again', () => render(true)));
  } finally {
    if (attempt === underWay) underWay = null;
  }
}

function put(html, index, restore) {
  shown = index;
  holder.innerHTML = html; // safe: the service made it from the card and escaped every text
  decorate(holder);
  drawAnnotations(holder);
  fit();
  if (restore) restorePlace();
  else if (!mark(true)) scrollTo(0, 0);
  for (const near of [index + 1, index - 1]) if (near >= 0 && near < state.catalog.pages.length) fetchPage(near);
}

export function turn(delta) {
  const page = state.viewer.scroll.page_index + delta;
  if (page >= 0 && page < state.catalog.pages.length) {
    view({ scroll: { page_index: page, sheet_scroll_top: 0, x: 0, y: 0 } });
    requestAnimationFrame(() => scrollTo(0, 0));
  }
}

// If another page or the map is shown, say so in the place of the position's question and its buttons.
function showWayBack() {
  const place = $('away');
  const { key } = state.navigation;
  const title = `${state.catalog.number.get(key)} ${state.catalog.item(key).title}`.trim();
  const text = isAway() ? `Back to ${title}` : '';
  const page = state.isMapOpen ? 'the map' : `page ${state.viewer.scroll.page_index + 1}`;
  if (place.dataset.shows === `${text} ${page}`) return; // drawing again would take the focus from the button
  place.dataset.shows = `${text} ${page}`;
  if (!text && place.contains(document.activeElement)) scroller.focus({ preventScroll: true });
  place.hidden = !text;
  place.parentElement.classList.toggle('is-away', Boolean(text)); // `:has` would restyle the whole page for each change
  fill(place, element('span', {}, `You are looking at ${page}.`), ' ',
    button(text, goBack, { class: 'primary', title: `${text} (Enter)` }));
}

// An element with a text of the card that the service has rendered as HTML.
export function fragment(kind, html) {
  const made = element('div', { class: kind, dir: 'auto' });
  made.innerHTML = html; // safe: the service escaped every text
  for (const code of made.querySelectorAll(':not(pre) > code')) code.replaceWith(codeOf(code.textContent));
  return made;
}

// -- zoom and scroll position --------------------------------------------------------------------------------------

// In a narrow column a whole sheet would be too small to read, so the parts of the sheet flow one below the other.
function isFlow() {
  return state.viewer.viewer.page.fit && scroller.clientWidth < FLOW_BELOW;
}

function unit() {
  const { scale, viewer } = state.viewer;
  if (!viewer.page.fit) return PX_PER_MM * scale;
  if (isFlow()) return FLOW_UNIT;
  const sheet = holder.querySelector('.sheet');
  const millimetres = sheet ? parseFloat(getComputedStyle(sheet).getPropertyValue('--width')) || 210 : 210;
  return Math.max(1.2, (scroller.clientWidth - 2 * MARGIN) / millimetres);
}

function fit() {
  const top = place();
  const wasFlow = holder.classList.contains('flow');
  holder.classList.toggle('flow', isFlow());
  const u = unit();
  root.host.style.setProperty('--u', `${u.toFixed(4)}px`);
  $('zoom').textContent = `${Math.round((100 * u) / PX_PER_MM)} %`;
  $('fit').setAttribute('aria-pressed', String(state.viewer.viewer.page.fit));
  if (top !== null && wasFlow !== isFlow()) mark(true); // the parts have other heights now
  else if (top !== null && Math.abs(top.u - u) > 0.001) scrollTo(scroller.scrollLeft * (u / top.u), top.millimetres * u);
  lastUnit = u;
  fitted = `${state.viewer.scale} ${state.viewer.viewer.page.fit}`;
}

let lastUnit = 0;
let fitted = ''; // the scale and the flag of the last call of `fit`

function place() {
  return lastUnit && shown >= 0 ? { u: lastUnit, millimetres: scroller.scrollTop / lastUnit } : null;
}

function zoom(factor) {
  const scale = Math.min(8, Math.max(0.1, (unit() / PX_PER_MM) * factor));
  view({ scale: Number(scale.toFixed(4)), viewer: { page: { fit: false } } });
}

function onWheel(event) {
  if (event.ctrlKey) {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.08 : 1 / 1.08);
  }
}

function scrollTo(left, top) {
  scroller.scrollTo(left, top);
  placed = { left: scroller.scrollLeft, top: scroller.scrollTop };
}

function onScroll() {
  if (shown < 0 || (scroller.scrollLeft === placed.left && scroller.scrollTop === placed.top)) return;
  placed = { left: -1, top: -1 };
  savePlace();
}

// `sheet_scroll_top` is in pixels of scale 1, so it is the same place at any zoom. `x` and `y` are actual pixels.
function savePlace() {
  const top = Number(((scroller.scrollTop / unit()) * PX_PER_MM).toFixed(2));
  view({ scroll: { x: scroller.scrollLeft, y: scroller.scrollTop, sheet_scroll_top: top } });
}

function restorePlace() {
  const { scroll } = state.viewer;
  mark(false);
  scrollTo(scroll.x, (scroll.sheet_scroll_top / PX_PER_MM) * unit());
}

// -- the position --------------------------------------------------------------------------------------------------

const parts = (key) => [...holder.querySelectorAll('.part')].filter((part) => part.dataset.key === key);

// Outline the part of the position. `follow` scrolls it into view and saves the scroll position for a reload. A stop is
// scrolled to the lower edge of the view, so that the code above it stays in sight. Returns whether the part is on this page.
function mark(follow) {
  for (const marked of holder.querySelectorAll('.here')) marked.classList.remove('here');
  const { key } = state.navigation;
  if (!key) return false;
  let found = parts(key);
  if (!found.length) found = [...holder.querySelectorAll('.part')].filter((part) => part.dataset.key.startsWith(`${key}/`)).slice(0, 1);
  if (!found.length) return false;
  found[0].classList.add('here');
  if (follow) {
    const box = found[0].getBoundingClientRect();
    const view = scroller.getBoundingClientRect();
    if (box.top < view.top + 16 || Math.min(box.bottom, box.top + 320) > view.bottom) {
      const toTop = box.top - view.top - 48;
      const toBottom = box.bottom - view.bottom + 16;
      scrollTo(scroller.scrollLeft, scroller.scrollTop + (state.navigation.position.focus_level === 'snapshot' ? Math.min(toTop, toBottom) : toTop));
      savePlace();
    }
  }
  return true;
}

function onClick(event) {
  const annotation = event.composedPath().find((node) => node instanceof Element && node.dataset.id);
  if (annotation) return choose(annotation.dataset.id);
  const link = event.composedPath().find((node) => node instanceof Element && node.localName === 'a');
  if (link) {
    const address = link.getAttribute('href') || '';
    if (address.startsWith('#')) {
      event.preventDefault();
      go(keyOf(address));
      scroller.focus({ preventScroll: true }); // the next Enter does what the page says and does not repeat this action
    }
    return;
  }
  const title = event.composedPath().find((node) => node instanceof HTMLElement && node.dataset?.kind?.endsWith('_title'));
  if (title) go(title.dataset.key);
}

// Give the focus to the part of the position, so that Tab goes on from there and letters are shortcuts.
export function focusPosition() {
  const here = holder.querySelector('.here');
  if (here) here.tabIndex = -1;
  (here ?? scroller).focus({ preventScroll: true });
}

// -- covered values ------------------------------------------------------------------------------------------------

const COVERED = new Set(['machine', 'memory', 'explanation']);

// Cover or show the values of each stop on the page, and tick the approved steps.
function decorate(holder) {
  const approved = new Set(state.progress.items.filter((item) => item.status === 'approved').map((item) => item.key));
  for (const part of holder.querySelectorAll('.part')) {
    const { key, kind } = part.dataset;
    if (kind === 'step_title') part.classList.toggle('done', approved.has(key));
    if (COVERED.has(kind)) cover(part, key, isUncovered(stopOf(key)));
    if (kind === 'states') for (const node of part.querySelectorAll('.node.state[data-key]')) coverState(node);
  }
}

// The class sets `visibility: hidden`, which also removes the values from the accessibility tree.
function cover(part, stop, open) {
  const covering = part.querySelector(':scope > .cover');
  part.classList.toggle('covered', !open);
  if (open) covering?.remove();
  else if (!covering) part.append(element('div', { class: 'cover' }, button('Show values', () => showValues(stop))));
}

// A state of the diagram lists the values of its snapshot, and names them in its title.
function coverState(node) {
  const { key } = node.dataset;
  const open = isUncovered(stopOf(key));
  const title = node.querySelector('title');
  if (!stateTitles.has(node)) stateTitles.set(node, title.textContent);
  node.classList.toggle('covered', !open);
  title.textContent = open ? stateTitles.get(node) : state.catalog.item(key)?.title ?? '';
}

const stateTitles = new WeakMap();
