// The map: the UML activity diagram of the card or of the current block, with zoom and pan. A click on a node goes to the
// node's position.

import { get } from './api.js';
import { go } from './actions.js';
import { $, button, element } from './dom.js';
import { marks } from './outline.js';
import { keyOf, state, stepOf, subscribe } from './state.js';

let shown = null; // the key whose diagram is drawn
let scale = 1;
let isVisible = false;
let wholeCard = true;

export function start() {
  const panel = $('map-panel');
  panel.append(
    element('div', { class: 'map-tools', role: 'toolbar', 'aria-label': 'View of the map' },
      button('Card', () => { wholeCard = true; render(); }), button('Block', () => { wholeCard = false; render(); }),
      element('span', { class: 'space' }),
      button('−', () => zoom(1 / 1.25), { class: 'icon', 'aria-label': 'Zoom out of the map' }),
      button('+', () => zoom(1.25), { class: 'icon', 'aria-label': 'Zoom into the map' })),
    element('div', { class: 'map-view', id: 'map', tabindex: 0, role: 'group', 'aria-label': 'Activity diagram' }));
  $('map').addEventListener('click', onClick);
  $('map').addEventListener('wheel', onWheel, { passive: false });
  pan($('map'));
  document.addEventListener('map', (event) => { isVisible = event.detail; render(); });
  subscribe((changed) => { if (['navigation', 'progress', 'catalog'].some((name) => changed.has(name))) render(changed.has('catalog')); });
}

function blockOf(key) {
  const parts = key.split('/');
  return parts.length >= 2 ? parts.slice(0, 2).join('/') : '';
}

async function render(renew = false) {
  if (!isVisible) return;
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
  scale = factor === 1 ? 1 : Math.min(6, Math.max(0.3, scale * factor));
  for (const drawing of $('map').querySelectorAll('svg')) drawing.style.width = `${100 * scale}%`;
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
