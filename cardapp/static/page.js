// Starts the page: reads the state, starts the views, then follows the changes.

import { go, leave, load, setTeacher, show, view } from './actions.js';
import { readAnswers } from './answers.js';
import { Notice } from './api.js';
import { $, button, element } from './dom.js';
import * as editor from './editor.js';
import * as failures from './failure.js';
import * as finish from './finish.js';
import * as foot from './foot.js';
import * as keyboard from './keyboard.js';
import * as live from './live.js';
import * as map from './map.js';
import * as memory from './memory.js';
import * as outline from './outline.js';
import * as program from './program.js';
import { keyOf, state, subscribe, update } from './state.js';
import * as search from './search.js';
import * as session from './session.js';
import * as status from './status.js';
import * as worksheet from './worksheet.js';

async function start() {
  try {
    await load();
  } catch (failure) {
    $('notice').hidden = false;
    $('notice').replaceChildren(failure.message, ' ', button('Try again', () => location.reload()));
    return;
  }
  worksheet.start(await openAddress() || showMoved());
  for (const part of [outline, search, map, status, session, failures, foot, finish, memory, editor, program, keyboard]) part.start();
  layout();
  remember();
  subscribe((changed) => {
    if (changed.has('navigation')) remember();
    if (changed.has('viewer')) layout();
    if (changed.has('connected')) notice();
  });
  bind();
  live.connect();
  readAnswers();
}

// Go to the position that the address names: `#/task/block/…` (links of the reports) or `#task/block/…`. Returns whether
// the position has changed.
async function openAddress() {
  const key = keyOf(location.hash);
  if (!location.hash || key === state.navigation.key) return false;
  if (state.catalog.item(key)) {
    await go(key);
    return true;
  }
  history.replaceState(null, '', location.pathname + location.search);
  update({ failure: new Notice('Not found.', `This card has no position “${key}”.`) });
  return false;
}

// If the position has changed while this browser had no page open, show it instead of the saved scroll position. Returns
// whether it has changed.
function showMoved() {
  const { revision } = state.navigation;
  if (revision === 0 || localStorage.getItem(seenName()) === String(revision)) return false;
  show(state.navigation);
  return true;
}

const seenName = () => `seen-position ${state.identity.uuid}`;
const remember = () => localStorage.setItem(seenName(), String(state.navigation.revision));

function bind() {
  addEventListener('hashchange', openAddress);
  addEventListener('pagehide', leave);
  $('teacher').checked = state.teacher;
  $('teacher').onchange = (event) => setTeacher(event.target.checked);
  $('expand').onclick = () => view({ viewer: { page: { expanded: !state.viewer.viewer.page.expanded } } });
  $('fold').onclick = () => {
    localStorage.setItem('outline-folded', $('columns').classList.contains('no-outline') ? 'no' : 'yes');
    layout();
  };
  for (const divider of document.querySelectorAll('.divider')) drag(divider);
}

// -- columns -------------------------------------------------------------------------------------------------------

function layout() {
  const { page, editor: panel, allocator } = state.viewer.viewer;
  const columns = $('columns');
  columns.classList.toggle('page-expanded', page.expanded);
  columns.classList.toggle('editor-expanded', panel.expanded && panel.visible && !page.expanded);
  const folded = localStorage.getItem('outline-folded') === 'yes';
  columns.classList.toggle('no-outline', folded);
  $('fold').setAttribute('aria-expanded', String(!folded));
  $('editor').hidden = !panel.visible;
  columns.classList.toggle('no-side', !panel.visible && !allocator.visible);
  $('expand').setAttribute('aria-pressed', String(page.expanded));
  let opener = $('show-editor');
  if (!panel.visible && !opener) {
    opener = button('Show editor', () => view({ viewer: { editor: { visible: true } } }), { id: 'show-editor' });
    document.querySelector('.menu').prepend(opener);
  } else if (panel.visible) opener?.remove();
  for (const name of ['outline', 'side']) {
    const width = localStorage.getItem(`width-${name}`);
    if (width && !(folded && name === 'outline')) columns.style.setProperty(`--${name}`, width);
    else columns.style.removeProperty(`--${name}`);
  }
  for (const divider of document.querySelectorAll('.divider')) announceWidth(divider);
}

// Tell screen readers the width of the divider's panel, in percent of all columns.
function announceWidth(divider) {
  const panel = $(divider.dataset.divider === 'outline' ? 'outline-panel' : 'side');
  divider.setAttribute('aria-valuenow', String(Math.round((100 * panel.offsetWidth) / $('columns').offsetWidth)));
}

function drag(divider) {
  const { divider: name } = divider.dataset;
  const set = (x) => {
    const whole = $('columns').getBoundingClientRect();
    const share = name === 'outline' ? x - whole.left : whole.right - x;
    const width = `${Math.round(Math.min(Math.max(share, name === 'outline' ? 160 : 280), whole.width * (name === 'outline' ? 0.4 : 0.75)))}px`;
    localStorage.setItem(`width-${name}`, width);
    $('columns').style.setProperty(`--${name}`, width);
    announceWidth(divider);
  };
  divider.addEventListener('pointerdown', (event) => {
    divider.setPointerCapture(event.pointerId);
    const follow = (move) => set(move.clientX);
    divider.addEventListener('pointermove', follow);
    divider.addEventListener('lostpointercapture', () => divider.removeEventListener('pointermove', follow), { once: true });
  });
  divider.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const box = divider.getBoundingClientRect();
    set(box.left + box.width / 2 + step);
  });
}

function notice() {
  $('notice').hidden = state.connected;
  $('notice').replaceChildren(element('b', {}, 'The service does not answer.'), ' The page tries again by itself; what you wrote on the worksheet is kept.');
}

start();
