// The map: the UML activity diagram of the card or of the current block, with zoom and pan, over the worksheet. A click on a
// node goes to the node's position and closes the map.

import { get } from './api.js';
import { go } from './actions.js';
import { $, button, element } from './dom.js';
import { choose, marks } from './outline.js';
import { keyOf, state, stepOf, subscribe } from './state.js';

let shown = null; // the key whose diagram is drawn
let unit = 0; // pixels per millimetre of the diagram
let wholeCard = true;

const SMALLEST_TEXT = 2.15; // mm; the type size of the small texts of a diagram
const LEAST_UNIT = 11.2 / SMALLEST_TEXT; // no text is smaller than 11 px
const MOST_UNIT = 24;
const MARGIN = 12; // px around the diagram
const FIRST_UNIT = 7; // at most, when the map is opened in a large window

export function start() {
  const panel = $('map-panel');
  panel.append(
    element('div', { class: 'tools', role: 'toolbar', 'aria-label': 'View of the map' },
      scopeButton('Whole card', true), scopeButton('This block', false), element('span', { class: 'space' }),
      button('−', () => zoom(1 / 1.25), { class: 'icon', 'aria-label': 'Zoom out of the map' }),
      button('+', () => zoom(1.25), { class: 'icon', 'aria-label': 'Zoom into the map' }),
      button('×', close, { class: 'icon', 'aria-label': 'Close the map (Escape)', title: 'Close (Escape)' })),
    element('div', { class: 'map-view', id: 'map', tabindex: 0, role: 'group', 'aria-label': 'Activity diagram' }));
  $('map').addEventListener('click', onClick);
  $('map').addEventListener('wheel', onWheel, { passive: false });
  pan($('map'));
  subscribe((changed) => {
    if (['isMapOpen', 'navigation', 'progress', 'catalog'].some((name) => changed.has(name))) render(changed.has('catalog'));
  });
}

function scopeButton(label, isWhole) {
  const made = button(label, () => {
    for (const each of $('map-panel').querySelectorAll('[aria-pressed]')) each.setAttribute('aria-pressed', String(each === made));
    wholeCard = isWhole;
    render();
  }, { 'aria-pressed': String(wholeCard === isWhole) });
  return made;
}

export const isOpen = () => state.isMapOpen;
export const close = () => choose('outline', $('map-panel').contains(document.activeElement));

function blockOf(key) {
  const parts = key.split('/');
  return parts.length >= 2 ? parts.slice(0, 2).join('/') : '';
}

async function render(renew = false) {
  $('map-panel').hidden = !state.isMapOpen;
  $('map-panel').closest('.worksheet').classList.toggle('map-open', state.isMapOpen);
  if (!state.isMapOpen) return;
  const wanted = wholeCard ? '' : blockOf(state.navigation.key) || state.catalog.pages[0].key;
  if (wanted !== shown || renew) {
    shown = wanted;
    try {
      const { html } = await get(`/api/diagram?key=${encodeURIComponent(wanted)}`);
      if (shown === wanted) $('map').innerHTML = html; // safe: the service made it from the card and escaped every text
    } catch (failure) {
      shown = null;
      $('map').replaceChildren(element('p', {}, failure.message));
      return;
    }
    unit = 0;
    zoom(1);
  }
  paint();
}

function paint() {
  const { approved, visited } = marks();
  const { key } = state.navigation;
  const at = wholeCard ? blockOf(key) : stepOf(key) || key;
  for (const node of $('map').querySelectorAll('[data-key]')) {
    const nodeKey = node.dataset.key;
    const steps = nodeKey.split('/').length >= 4 ? [nodeKey] : state.catalog.stepsBelow(nodeKey);
    const done = steps.filter((step) => approved.has(step)).length;
    node.classList.toggle('current', nodeKey === at);
    if (nodeKey === at) node.setAttribute('aria-current', 'location');
    else node.removeAttribute('aria-current');
    node.classList.toggle('approved', steps.length > 0 && done === steps.length);
    const isBegun = steps.some((step) => approved.has(step) || visited.has(step));
    node.classList.toggle('visited', isBegun && done < steps.length);
  }
  $('map').querySelector('.current')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function zoom(factor) {
  const drawings = [...$('map').querySelectorAll('svg')];
  if (!unit) unit = Math.min(FIRST_UNIT, ...drawings.map(fitting));
  unit = Math.min(MOST_UNIT, Math.max(LEAST_UNIT, unit * factor));
  for (const drawing of drawings) drawing.style.width = `${drawing.viewBox.baseVal.width * unit}px`;
}

// The unit at which the whole drawing is seen.
function fitting(drawing) {
  const { width, height } = drawing.viewBox.baseVal;
  return Math.min(($('map').clientWidth - 2 * MARGIN) / width, ($('map').clientHeight - 2 * MARGIN) / height);
}

function onWheel(event) {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1);
}

function onClick(event) {
  const link = event.target.closest('a');
  if (!link) return;
  event.preventDefault();
  go(keyOf(link.getAttribute('href')));
  close();
}

// Drag with the main button to move the view.
function pan(view) {
  let from = null;
  view.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || event.target.closest('a')) return;
    from = { x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop };
  });
  view.addEventListener('pointermove', (event) => {
    if (from) view.scrollTo(from.left - event.clientX + from.x, from.top - event.clientY + from.y);
  });
  for (const name of ['pointerup', 'pointerleave', 'pointercancel']) view.addEventListener(name, () => { from = null; });
}
