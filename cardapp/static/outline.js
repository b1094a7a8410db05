// The outline: a tree of all positions, open down to the current position. This module also has the tabs of outline and
// map, and the breadcrumb.

import { go, moveStep, sync } from './actions.js';
import { recordOf } from './answers.js';
import { $, element } from './dom.js';
import { state, stepOf, subscribe, update } from './state.js';

const DEEPEST = 'step'; // snapshots are only on the sheet
const open = new Set();
let approved = new Set();
let visited = new Set();

export function start() {
  $('tab-outline').onclick = () => choose('outline');
  $('tab-map').onclick = () => choose('map');
  for (const tab of [$('tab-outline'), $('tab-map')]) {
    tab.onkeydown = (event) => {
      if (!/^Arrow(Left|Right)$/.test(event.key)) return;
      event.stopPropagation();
      choose(tab.id === 'tab-map' ? 'outline' : 'map', true);
    };
  }
  $('previous').onclick = () => moveStep(-1);
  $('next').onclick = () => moveStep(1);
  $('title').onclick = () => go('');
  $('tree').addEventListener('click', onClick);
  $('tree').addEventListener('keydown', onKey);
  subscribe((changed) => {
    const moved = changed.has('navigation') || changed.has('catalog');
    if (moved) renderTrail();
    if (changed.has('isMapOpen')) renderTabs();
    if (moved || changed.has('progress') || changed.has('answers')) render(moved);
  });
  renderTrail();
  render(true);
}

// Choose the tab `name`. The map is over the worksheet; the outline stays beside it.
export function choose(name, focus = false) {
  update({ isMapOpen: name === 'map' });
  if (focus) $(`tab-${name}`).focus();
}

function renderTabs() {
  for (const [tab, isChosen] of [[$('tab-outline'), !state.isMapOpen], [$('tab-map'), state.isMapOpen]]) {
    tab.setAttribute('aria-selected', String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
  }
}

export function marks() {
  return { approved, visited };
}

// `moved` scrolls the current row into view.
function render(moved = false) {
  const items = state.progress.items;
  approved = new Set(items.filter((item) => item.status === 'approved').map((item) => item.key));
  visited = new Set(items.filter((item) => item.last_result).map((item) => item.key));
  const { total, approved: count } = state.progress.summary;
  $('tally').textContent = total ? `${count} of ${total} steps approved, ${visited.size} run` : '';
  const { key } = state.navigation;
  for (const item of state.catalog.trail(key)) open.add(item.key);
  const active = document.activeElement?.closest?.('#tree') ? document.activeElement.dataset.key : null;
  place(branch('', 1));
  const current = $('tree').querySelector('[aria-current]');
  if (active !== null) $('tree').querySelector(`[data-key="${CSS.escape(active)}"]`)?.focus({ preventScroll: true });
  else if (current) current.tabIndex = 0;
  if (moved) current?.scrollIntoView({ block: 'nearest' });
}

// Put the rows into the tree. An unchanged row is kept, because a new row costs style and layout time.
function place(rows) {
  const tree = $('tree');
  const before = [...tree.children];
  if (rows.length !== before.length) tree.replaceChildren(...rows);
  else rows.forEach((row, at) => { if (row !== before[at]) before[at].replaceWith(row); });
}

const drawn = new Map(); // key -> {now, row}: what the row shows, as JSON, and the row

// The row of an item: the drawn one, unless it shows something else now.
function rowOf(item, shows) {
  const now = JSON.stringify(shows);
  if (drawn.get(item.key)?.now !== now) drawn.set(item.key, { now, row: draw(item, shows) });
  const { row } = drawn.get(item.key);
  row.tabIndex = shows.isHere ? 0 : -1;
  return row;
}

function draw(item, { level, leaf, isOpen, isHere, number, title, mark }) {
  return element('div', {
    role: 'treeitem', 'aria-level': level, 'data-key': item.key, class: `row ${item.level}${hasSeveralStops(item) ? ' several' : ''}`, tabindex: isHere ? 0 : -1,
    ...(leaf ? {} : { 'aria-expanded': String(isOpen) }), ...(isHere && { 'aria-current': 'location' }),
    'aria-selected': String(isHere), style: `--level:${level}`,
  }, element('span', { class: 'twist', 'aria-hidden': 'true' }, leaf ? '' : isOpen ? '▾' : '▸'),
  element('span', { class: 'number' }, number),
  element('span', { class: 'name', dir: 'auto' }, title), element('span', ...mark));
}

function branch(parent, level) {
  const rows = [];
  for (const item of state.catalog.children.get(parent) || []) {
    const leaf = item.level === DEEPEST;
    const isOpen = open.has(item.key) && !leaf;
    const isHere = item.key === state.navigation.key || (leaf && stepOf(state.navigation.key) === item.key);
    const number = state.catalog.number.get(item.key);
    rows.push(rowOf(item, { level, leaf, isOpen, isHere, number, title: item.title, mark: markOf(item) }));
    if (isOpen) rows.push(...branch(item.key, level + 1));
  }
  return rows;
}

// The attributes and the text of the sign at the end of a row.
function markOf(item) {
  const steps = item.level === DEEPEST ? [item.key] : state.catalog.stepsBelow(item.key);
  const done = steps.filter((key) => approved.has(key)).length;
  if (done === steps.length && done) return [{ class: 'sign done', 'aria-label': 'approved' }, '✓'];
  const proved = item.level === DEEPEST ? provedStops(item.key) : '';
  if (proved) return [{ class: 'sign', title: 'Stops that the program has run to' }, `◐ ${proved}`];
  if (done || steps.some((key) => visited.has(key))) return [{ class: 'sign', 'aria-label': done ? 'partly approved' : 'visited' }, '◐'];
  return [{ class: 'sign' }];
}

const hasSeveralStops = ({ level, key }) => level === DEEPEST && state.catalog.children.get(key).length > 1;

// How many of a step's stops the program has run to, like `1/2`; empty for none and for a step with one stop.
function provedStops(step) {
  const stops = state.catalog.children.get(step);
  const proved = stops.filter(({ key }) => recordOf(key).proved_at).length;
  return stops.length > 1 && proved ? `${proved}/${stops.length}` : '';
}

function onClick(event) {
  const row = event.target.closest('[role=treeitem]');
  if (!row) return;
  const { key } = row.dataset;
  if (event.target.closest('.twist') || (key === state.navigation.key && row.hasAttribute('aria-expanded'))) toggle(key);
  else {
    open.add(key);
    go(key);
  }
}

function toggle(key, wanted = !open.has(key)) {
  if (wanted) open.add(key);
  else open.delete(key);
  render();
}

// The keys of a tree as in the ARIA practices. The page's shortcuts do not get these keys.
function onKey(event) {
  const row = event.target.closest('[role=treeitem]');
  if (!row || event.altKey || event.ctrlKey || event.shiftKey) return;
  const rows = [...$('tree').querySelectorAll('[role=treeitem]')];
  const at = rows.indexOf(row);
  const { key } = row.dataset;
  const focus = (target) => { if (target) { row.tabIndex = -1; target.tabIndex = 0; target.focus(); } };
  const actions = {
    ArrowDown: () => focus(rows[at + 1]),
    ArrowUp: () => focus(rows[at - 1]),
    Home: () => focus(rows[0]),
    End: () => focus(rows.at(-1)),
    ArrowRight: () => (row.getAttribute('aria-expanded') === 'false' ? toggle(key, true) : focus(rows[at + 1])),
    ArrowLeft: () => (row.getAttribute('aria-expanded') === 'true' ? toggle(key, false)
      : focus(rows.find((each) => each.dataset.key === state.catalog.item(key).parent))),
    Enter: () => (key === state.navigation.key ? sync() : go(key)), // as on the rest of the page
    ' ': () => go(key),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}

// The ancestors as numbers, then the title of the step, or of the item above the steps.
function renderTrail() {
  const { key } = state.navigation;
  const items = state.catalog.trail(key);
  const shown = items.slice(0, 4);
  $('trail').replaceChildren(...shown.map((item, at) => {
    const isLast = at === shown.length - 1;
    const title = element('span', isLast ? {} : { class: 'unseen' }, ` ${item.title}`);
    return element('button', {
      type: 'button', onclick: () => go(item.key), ...(isLast ? { 'aria-current': 'location' } : { title: item.title }),
    }, state.catalog.number.get(item.key), title);
  }));
  const title = state.catalog.item('').title;
  $('title').textContent = title;
  document.title = items.length ? `${items.at(-1).title} · ${title}` : title;
  const hash = key ? `#/${key}` : '';
  if (location.hash !== hash) history.replaceState(null, '', hash || location.pathname + location.search);
}
