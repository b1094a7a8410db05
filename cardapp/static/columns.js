// The columns of the page: outline, worksheet, editor. They can be folded and dragged. A narrow window has one column, and
// the outline lies over it while it is open.

import { view } from './actions.js';
import { $, button } from './dom.js';
import { state, subscribe } from './state.js';

const STEP = 24; // px; an arrow key moves a divider by this much
let isOver = false; // whether the outline is open in a narrow window

export function start() {
  $('fold').onclick = () => showOutline(!isShown());
  $('outline-close').onclick = close;
  $('expand').onclick = () => view({ viewer: { page: { expanded: !state.viewer.viewer.page.expanded } } });
  addEventListener('resize', layout);
  for (const divider of document.querySelectorAll('.divider')) drag(divider);
  subscribe((changed) => {
    if (changed.has('navigation') || changed.has('isMapOpen')) isOver = false;
    if (['viewer', 'navigation', 'isMapOpen'].some((name) => changed.has(name))) layout();
  });
  layout();
}

const isNarrow = () => getComputedStyle($('outline-panel')).position === 'fixed';
const isFolded = () => localStorage.getItem('outline-folded') === 'yes';
const isAlone = () => state.viewer.viewer.page.expanded || state.viewer.viewer.editor.expanded; // one column hides the others
const isShown = () => (isNarrow() ? isOver : !isFolded()) && !isAlone();

export function showOutline(wanted = true) {
  if (wanted && isAlone()) view({ viewer: { page: { expanded: false }, editor: { expanded: false } } });
  if (isNarrow()) isOver = wanted;
  else localStorage.setItem('outline-folded', wanted ? 'no' : 'yes');
  layout();
  if (isOver) $('tree').querySelector('[tabindex="0"]')?.focus();
}

// Whether the outline covers the page.
export const isOpen = () => isOver && isNarrow();

export function close() {
  showOutline(false);
  $('fold').focus();
}

function layout() {
  const { page, editor: panel, allocator } = state.viewer.viewer;
  const columns = $('columns');
  columns.classList.toggle('page-expanded', page.expanded);
  columns.classList.toggle('editor-expanded', panel.expanded && panel.visible && !page.expanded);
  columns.classList.toggle('no-outline', isFolded());
  columns.classList.toggle('outline-over', isOver);
  columns.classList.toggle('no-side', !panel.visible && !allocator.visible);
  $('fold').setAttribute('aria-expanded', String(isShown()));
  $('editor').hidden = !panel.visible;
  $('expand').setAttribute('aria-pressed', String(page.expanded));
  offerEditor(panel.visible);
  for (const divider of document.querySelectorAll('.divider')) setWidth(divider, localStorage.getItem(`width-${divider.dataset.divider}`));
}

// A hidden editor has a button in the bar instead.
function offerEditor(isVisible) {
  const opener = $('show-editor');
  if (isVisible) opener?.remove();
  else if (!opener) {
    const show = () => view({ viewer: { editor: { visible: true } } });
    document.querySelector('.menu').prepend(button('Show editor', show, { id: 'show-editor' }));
  }
}

// -- dividers ------------------------------------------------------------------------------------------------------

// The style limits a width so that all columns have the room that they need. Screen readers are told the width in
// percent of all columns.
function setWidth(divider, width) {
  const { divider: name } = divider.dataset;
  if (width) $('columns').style.setProperty(`--${name}`, width);
  divider.setAttribute('aria-valuenow', String(Math.round((100 * panelOf(divider).offsetWidth) / $('columns').offsetWidth)));
}

const panelOf = ({ dataset }) => $(dataset.divider === 'outline' ? 'outline-panel' : 'side');

// Move the divider by a number of pixels. The panel's resulting width is stored.
function widen(divider, x) {
  const { divider: name } = divider.dataset;
  const whole = $('columns').getBoundingClientRect();
  const share = Math.max(0, name === 'outline' ? x - whole.left : whole.right - x);
  setWidth(divider, `${Math.round(share)}px`);
  localStorage.setItem(`width-${name}`, `${panelOf(divider).offsetWidth}px`);
}

function drag(divider) {
  divider.addEventListener('pointerdown', (event) => {
    divider.setPointerCapture(event.pointerId);
    const follow = (move) => widen(divider, move.clientX);
    divider.addEventListener('pointermove', follow);
    divider.addEventListener('lostpointercapture', () => divider.removeEventListener('pointermove', follow), { once: true });
  });
  divider.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const box = divider.getBoundingClientRect();
    widen(divider, box.left + box.width / 2 + step);
  });
}
