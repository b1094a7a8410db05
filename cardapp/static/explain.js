// The panel with the annotations of the page that is shown and the strategies of the card, above the sheets.

import { go, view } from './actions.js';
import * as store from './annotations.js';
import { $, button, codeOf, element, fill } from './dom.js';
import * as drawing from './drawing.js';
import { currentStop, keepDraft, state, stepOf, stopsBeside, subscribe, update } from './state.js';

const KINDS = { box: 'Box', arrow: 'Arrow', underline: 'Underline', marker: 'Marker', callout: 'Callout', freehand: 'Freehand' };
const COLORS = { current: 'Amber', accent: 'Blue', good: 'Green', bad: 'Red', ink: 'Black' };
const PARTS = {
  name_date: 'Name and date', explanation: 'Explanation', card_title: 'Title', task_title: 'Title', block_title: 'Title', phase_title: 'Title', step_title: 'Title', intro: 'Text',
  text: 'Text', overview: 'Overview', goal: 'Goal', activity: 'Activity', states: 'States', code: 'Code', memory: 'Memory',
  machine: 'Values', notes: 'Stop', question: 'Question', colophon: 'Colophon',
};
const HOW = 'Drag on the sheet. Or: arrow keys choose a part, with Shift they move the region, with Ctrl they resize it; Enter draws, Escape ends.';

let kind, color, width, text, strategy; // the fields of a new annotation
let drawButton, said;
const results = new Map(); // strategy id -> the results of its last run
let running = null; // the id of the strategy that runs

export function start() {
  $('explain-open').onclick = toggle;
  fill($('explain'), head(), element('div', { class: 'explain-body' }, section('Annotations', form(), 'annotation-list'),
    section('Strategies', strategyForm(), 'strategy-list')));
  $('explain').addEventListener('keydown', onKey);
  subscribe((changed) => {
    const has = (name) => changed.has(name);
    if (['isExplainOpen', 'annotations', 'strategies', 'chosen', 'viewer', 'navigation', 'catalog'].some(has)) show();
    if (has('chosen') && isOpen()) $('annotation-list').querySelector('[aria-pressed=true].link')?.scrollIntoView({ block: 'nearest' });
  });
  show();
}

const isOpen = () => state.isExplainOpen;

export function toggle() {
  if (isOpen()) return close();
  update({ isExplainOpen: true });
  drawButton.focus();
}

function close() {
  const hadFocus = $('explain').contains(document.activeElement);
  drawing.cancel();
  update({ isExplainOpen: false });
  if (hadFocus) $('explain-open').focus();
}

function head() {
  return element('div', { class: 'panel-head' }, element('h2', {}, 'Annotations and strategies'), element('span', { class: 'space' }),
    button('Hide all', store.toggleLayer, { id: 'layer', title: 'Alt+7' }),
    button('×', close, { class: 'icon', 'aria-label': 'Close annotations and strategies', title: 'Close (Alt+8)' }));
}

const section = (name, fields, list) => element('section', { 'aria-label': name }, element('h3', {}, name), fields, element('ul', { id: list }));

// -- the fields ----------------------------------------------------------------------------------------------------

const select = (name, choices) => element('select', { 'aria-label': name }, ...Object.entries(choices).map(([value, label]) => element('option', { value }, label)));

function form() {
  [kind, color, strategy] = [select('Kind', KINDS), select('Colour', COLORS), select('For', {})];
  width = element('input', { type: 'number', min: 1, max: 40, value: 5, 'aria-label': 'Width of the line, in tenths of a millimetre' });
  text = element('input', { 'aria-label': 'Text', placeholder: 'Text', maxlength: 500, autocomplete: 'off' });
  keepDraft(text, 'annotation text');
  drawButton = button('Draw', draw, { class: 'primary' });
  said = element('p', { class: 'quiet', role: 'status' });
  return element('div', { class: 'explain-form' }, kind, color, width, text, strategy, drawButton, said);
}

function draw() {
  if (drawing.isOpen()) return drawing.cancel();
  if (kind.value === 'callout' && !text.value.trim()) {
    said.textContent = 'A callout shows its text: write one.';
    return text.focus();
  }
  const style = { kind: kind.value, color: color.value, width: Math.min(40, Math.max(1, Number(width.value) || 5)) };
  const about = { text: text.value, style, strategy_id: strategy.value || null, ...(!strategy.value && { key: currentStop() }) };
  drawing.begin({ style, text: text.value, aimed: (name) => say(`${partTitle(name)}. ${HOW}`), done: (drawn) => take(drawn, about) });
  if (drawing.isOpen()) drawButton.textContent = 'Stop drawing';
}

function take(drawn, about) {
  drawButton.textContent = 'Draw';
  say(drawn ? 'Drawn.' : '');
  if (!drawn) return;
  text.value = '';
  text.dispatchEvent(new Event('input'));
  store.addAnnotation({ ...about, ...drawn });
}

function say(words) {
  said.textContent = words;
}

function strategyForm() {
  const label = element('input', { 'aria-label': 'Name of the strategy', placeholder: 'Name', maxlength: 200, autocomplete: 'off' });
  const rows = element('div', { class: 'commands' }, commandRow());
  const add = button('Add the strategy', async () => {
    const pairs = [...rows.children].map((row) => [...row.querySelectorAll('input')].map(({ value }) => value.trim())).filter(([command]) => command);
    const added = await store.addStrategy({
      key: currentStop(), label: label.value.trim(), commands: pairs.map(([command]) => command), expected_observations: pairs.map(([, expected]) => expected || null),
    });
    if (!added) return;
    label.value = '';
    rows.replaceChildren(commandRow());
  }, { id: 'strategy-add' });
  const more = button('One more command', () => { rows.append(commandRow()); rows.lastChild.firstChild.focus(); });
  return element('details', { class: 'explain-form' }, element('summary', {}, 'New strategy'), label, rows, element('div', { class: 'actions' }, more, add));
}

function commandRow() {
  const field = (name) => element('input', { class: 'mono', 'aria-label': name, placeholder: name, maxlength: 500, autocomplete: 'off', spellcheck: 'false' });
  return element('div', { class: 'command-row' }, field('gdb command'), field('Expected to print'));
}

// -- the lists -----------------------------------------------------------------------------------------------------

function show() {
  const { annotations, strategies } = state;
  $('explain').hidden = !isOpen();
  $('explain-open').setAttribute('aria-pressed', String(isOpen()));
  if (!isOpen()) return;
  const stop = currentStop();
  $('layer').disabled = !annotations.length;
  $('layer').textContent = annotations.some(({ visible }) => visible) ? 'Hide all' : 'Show all';
  drawButton.disabled = !stop;
  drawButton.title = stop ? '' : 'Go to a step first';
  $('strategy-add').disabled = !stop;
  $('strategy-add').title = drawButton.title;
  offerStrategies(strategies.filter(({ key }) => key === stop));
  const page = state.catalog.pages[state.viewer.scroll.page_index].key;
  fill($('annotation-list'), ...annotations.filter((each) => isOnPage(each, page)).map(annotationRow));
  fill($('strategy-list'), ...strategies.map(strategyRow));
}

const isOnPage = ({ key, target }, page) => `${key}/`.startsWith(`${page}/`) || `${target.part.split(':')[0]}/`.startsWith(`${page}/`);

function offerStrategies(found) {
  const before = strategy.value;
  fill(strategy, element('option', { value: '' }, 'for no strategy'), ...found.map(({ id, label }) => element('option', { value: id }, `for ${label}`)));
  strategy.hidden = !found.length;
  strategy.value = found.some(({ id }) => id === before) ? before : '';
}

function annotationRow({ id, style, text: words, target, visible }) {
  const name = `${KINDS[style.kind]}${words ? ` “${words}”` : ''}`;
  return element('li', { 'data-id': id, class: visible ? '' : 'hidden-one' },
    button(`${name} · ${partTitle(target.part)}`, () => choose(id), { class: 'link', 'aria-pressed': String(id === state.chosen), dir: 'auto' }),
    button('Show', () => store.toggleAnnotation(id), { 'aria-label': `Show ${id}: ${name}`, 'aria-pressed': String(visible) }),
    button('×', () => store.removeAnnotation(id), { class: 'icon', 'aria-label': `Remove ${id}: ${name}`, title: 'Remove (Delete)' }));
}

// "Code of 1.2.1.1 The title" for `…/step:code`.
function partTitle(name) {
  const [key, rest] = name.split(':');
  const item = state.catalog.item(key);
  const place = item ? `${state.catalog.number.get(key)} ${item.title}`.trim() : key;
  return `${PARTS[rest.split('.')[0]] ?? rest} of ${place}`;
}

async function choose(id) {
  store.choose(id === state.chosen ? null : id);
  const found = state.annotations.find((each) => each.id === state.chosen);
  const item = found && (state.catalog.item(found.target.part.split(':')[0]) ?? state.catalog.item(found.key));
  if (item && item.page_index !== state.viewer.scroll.page_index) view({ scroll: { page_index: item.page_index, sheet_scroll_top: 0, x: 0, y: 0 } });
}

function strategyRow({ id, key, label, commands }) {
  const stop = state.catalog.item(key);
  const at = stop ? `at ${state.catalog.number.get(stepOf(key))} ${state.catalog.item(stepOf(key)).title}${nth(key)}` : 'its stop is no longer in the card';
  return element('li', { class: 'strategy' }, element('div', { class: 'strategy-head' },
    element('b', { dir: 'auto' }, label), element('span', { class: 'quiet', dir: 'auto' }, at), element('span', { class: 'space' }),
    button(running === id ? 'Running …' : 'Run', () => run(id, key), { 'aria-label': `Run ${label}`, disabled: !stop || running !== null }),
    button('×', () => store.removeStrategy(id), { class: 'icon', 'aria-label': `Remove ${label}`, title: 'Remove, with its annotations' })),
  results.has(id) ? outcome(results.get(id)) : element('p', {}, ...commands.flatMap((command, place) => [place ? ' · ' : '', codeOf(command)])));
}

function nth(key) {
  const stops = stopsBeside(key);
  return stops.length > 1 ? `, stop ${stops.findIndex((each) => each.key === key) + 1}` : '';
}

async function run(id, key) {
  running = id;
  results.delete(id);
  show();
  await go(key);
  const answer = await store.runStrategy(id);
  running = null;
  if (answer) results.set(id, answer.results);
  show();
  if (isOpen()) $('strategy-list').querySelector('.outcome')?.scrollIntoView({ block: 'nearest' });
}

function outcome(found) {
  const rows = found.map(({ command, output, expected, match }) => element('tr', { class: match === false ? 'wrong' : '' },
    element('th', { scope: 'row' }, codeOf(command)),
    element('td', {}, element('pre', { tabindex: 0 }, output ?? 'not run: the time was over')),
    element('td', {}, expected === undefined ? '' : element('pre', {}, expected)),
    element('td', { class: 'verdict' }, match === undefined ? '' : match ? '✓ as expected' : '✗ different')));
  const heads = ['Command', 'Printed', 'Expected', 'Result'].map((name) => element('th', { scope: 'col' }, name));
  return element('table', { class: 'outcome' }, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows));
}

// -- keys in the lists ---------------------------------------------------------------------------------------------

// Up and down move the focus from one annotation to the next; Delete removes the focused one.
function onKey(event) {
  const row = event.target.closest('#annotation-list > li');
  if (!row || event.ctrlKey || event.altKey || event.shiftKey) return;
  const other = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (event.key === 'Delete') removeRow(row);
  else if (other) other.querySelector('button').focus();
  else return;
  event.preventDefault();
}

async function removeRow(row) {
  const place = [...row.parentElement.children].indexOf(row);
  await store.removeAnnotation(row.dataset.id);
  const left = $('annotation-list').children;
  (left[Math.min(place, left.length - 1)]?.querySelector('button') ?? drawButton).focus();
}
