// The learner's events, newest first, over the sheets. Notes and pictures are added here. A picture that is dropped or
// pasted anywhere on the page is taken too, and is pinned with its caption.

import { go } from './actions.js';
import { LEFT_EMPTY, recorded } from './answers.js';
import { get, Notice, post, upload } from './api.js';
import { $, button, codeOf, element, fill, sentence } from './dom.js';
import * as over from './over.js';
import { currentStop, state, stepOf, stopsBeside, subscribe, update } from './state.js';

const ACTOR = 'page';
const PAGE = 50;
const MOST = 1000; // events that the service sends at once
const LATER_MS = 400;
const KINDS = [
  ['', 'What was done'], ['all', 'Views and moves too'], ['note', 'Notes'], ['evidence.added', 'Pictures'], ['x-prediction', 'Predictions'],
  ['prediction.judged', 'Judged predictions'], ['x-answer', 'Answers'], ['checkpoint.ready', 'Stops reached'],
  ['checkpoint.failed', 'Failed runs'], ['annotation.added', 'Annotations'], ['strategy.added', 'Strategies'], ['progress.changed', 'Approvals'], ['sync.off', 'SYNC OFF'],
];
const VIEWS = ['viewer.changed', 'navigation.set', 'navigation.moved']; // shown only on request
const WITHDRAWABLE = ['note', 'evidence.added'];

let filters = { kind: '', isHere: false, actor: '' };
let events = [];
let hasMore = false;
let picture = null; // the image that is added next
let timer = 0;
let list, more, kinds, places, actors, caption, preview;

export function start() {
  $('show-events').onclick = open;
  build();
  subscribe((changed) => {
    if ($('events').hidden || !['control', 'progress', 'answers'].some((name) => changed.has(name))) return;
    clearTimeout(timer);
    timer = setTimeout(renew, LATER_MS);
  });
  addEventListener('paste', (event) => takeFrom(event, event.clipboardData));
  addEventListener('drop', (event) => takeFrom(event, event.dataTransfer));
  addEventListener('dragover', (event) => { if (event.dataTransfer.types.includes('Files')) event.preventDefault(); });
}

export const toggle = () => ($('events').hidden ? open() : over.close());

export async function open() {
  $('add-note').querySelector('.where').textContent = `at ${nameOf(state.navigation.key)}`;
  over.open('events');
  await recorded();
  await renew();
}

// -- reading -------------------------------------------------------------------------------------------------------

// Read the newest events again, as many as are shown.
async function renew() {
  await read(null, Math.max(PAGE, events.length));
}

const isTypingReason = () => list.contains(document.activeElement) && document.activeElement.localName === 'input';

const isShown = ({ kind }) => filters.kind !== '' || !VIEWS.includes(kind);

let readings = 0; // an older reading that arrives later is dropped

async function read(before, limit) {
  const number = (readings += 1);
  try {
    const found = await Promise.all(keys().map((key) => get(`/api/events?${query({ ...filters, key, before, limit })}`)));
    if (number !== readings || isTypingReason()) return;
    const newest = found.flatMap((each) => each.events).sort((one, other) => other.seq - one.seq).slice(0, limit);
    hasMore = newest.length === limit;
    events = before === null ? newest : [...events, ...newest];
    if (hasMore && !newest.some(isShown)) return await read(newest.at(-1).seq, MOST);
  } catch (failure) {
    update({ failure: new Notice('Events not read.', failure.message) });
    return;
  }
  draw();
}

// The positions whose events are shown: the step and its stops; null for all.
function keys() {
  const stop = currentStop();
  if (!filters.isHere) return [null];
  return stop ? [stepOf(stop), ...stopsBeside(stop).map(({ key }) => key)] : [state.navigation.key];
}

function query({ kind, actor, key, before, limit }) {
  const wanted = { limit: Math.min(limit, MOST), before: before ?? Number.MAX_SAFE_INTEGER };
  if (kind && kind !== 'all') wanted.kind = kind;
  if (actor) wanted.actor = actor;
  if (key !== null) wanted.key = key;
  return new URLSearchParams(wanted);
}

// -- the page ------------------------------------------------------------------------------------------------------

function build() {
  kinds = chooser('Kind of event', KINDS, (value) => filter({ kind: value }));
  places = chooser('Place', [['', 'The whole card'], ['here', 'This step']], (value) => filter({ isHere: value === 'here' }));
  actors = chooser('Actor', [['', 'Everybody']], (value) => filter({ actor: value }));
  list = element('ol', { class: 'events', 'aria-label': 'Events, newest first' });
  more = button('Show older ones', () => read(events.at(-1).seq, PAGE), { class: 'link' });
  fill($('events'),
    element('div', { class: 'over-head' }, element('h2', {}, 'Events'), element('span', { class: 'space' }),
      button('×', over.close, { class: 'icon', 'aria-label': 'Close the events (Escape)', title: 'Close (Escape)' })),
    composer(), element('div', { class: 'filters', role: 'group', 'aria-label': 'Which events are shown' }, kinds, places, actors), list, more);
}

function chooser(name, options, onChoice) {
  const made = element('select', { 'aria-label': name }, ...options.map(([value, label]) => element('option', { value }, label)));
  made.addEventListener('change', () => onChoice(made.value));
  return made;
}

async function filter(parts) {
  filters = { ...filters, ...parts };
  events = [];
  await read(null, PAGE);
}

function draw() {
  const known = new Set([...actors.options].map(({ value }) => value));
  const met = new Set(events.map(({ actor }) => actor));
  actors.append(...[...met].filter((actor) => !known.has(actor)).map((actor) => element('option', { value: actor }, actor)));
  more.hidden = !hasMore;
  const isFiltered = filters.kind || filters.isHere || filters.actor;
  const shown = events.filter(isShown);
  fill(list, ...(shown.length ? shown.map(entry) : [element('li', { class: 'quiet' }, isFiltered ? 'No event is of this kind.' : 'Nothing has happened yet.')]));
}

function entry(event) {
  const { at, headline, key, actor, seq, withdrawn } = event;
  const time = new Date(at);
  return element('li', { class: withdrawn ? 'withdrawn' : '' },
    element('time', { datetime: at, title: time.toLocaleString() }, clock(time)),
    element('div', { class: 'what' },
      element('p', {}, element('span', { class: 'headline', dir: 'auto' }, headline), withdrawn ? element('b', {}, ' withdrawn') : null),
      ...detail(event),
      ...event.evidence.map(pinned),
      element('p', { class: 'quiet' }, placeLink(key), ` · ${actor} · ${seq}`, ...(isWithdrawable(event) ? [' · ', withdrawal(seq)] : []))));
}

// The time of day, with the date unless it is today.
function clock(time) {
  const hours = time.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  const isToday = time.toDateString() === new Date().toDateString();
  return isToday ? hours : `${time.toLocaleDateString([], { day: 'numeric', month: 'short' })} ${hours}`;
}

const isWithdrawable = ({ kind, withdrawn }) => WITHDRAWABLE.includes(kind) && !withdrawn;

function placeLink(key) {
  if (!state.catalog.item(key)) return element('span', {}, `${key}, no longer in this card`);
  return element('a', { href: `#/${key}`, dir: 'auto', onclick: (event) => { event.preventDefault(); over.close(); go(key); } }, nameOf(key));
}

const nameOf = (key) => `${state.catalog.number.get(key) ?? ''} ${state.catalog.item(key)?.title ?? key}`.trim();

// The event's text and its predicted values, which are shown below the headline.
function detail({ kind, data }) {
  const parts = [];
  const text = data.text || data.note || (kind === 'sync.off' ? null : data.reason); // a headline holds why SYNC went off
  if (text) parts.push(element('p', { class: 'text', dir: 'auto' }, text));
  const said = { ...data.right, ...(data.said ?? data.values) }; // a value that is judged and was not said was left empty
  if (kind === 'x-prediction' || kind === 'prediction.judged') for (const name of Object.keys(said)) parts.push(predicted(name, (data.said ?? data.values)?.[name] ?? '', data));
  return parts;
}

function predicted(name, said, { seen, right }) {
  const isWrong = right?.[name] === false;
  const words = String(said).trim() ? codeOf(String(said)) : LEFT_EMPTY;
  return element('p', { class: isWrong ? 'wrong' : '' }, codeOf(name), ': ', words, ...(isWrong ? [said ? ' wrong, it is ' : ', it is ', codeOf(String(seen?.[name]))] : []));
}

function pinned({ name, caption: words, withdrawn, width, height }) {
  if (withdrawn) return element('p', { class: 'quiet' }, 'A picture was withdrawn.');
  const image = element('img', { src: `/api/evidence/${name}`, alt: words || 'Picture without a caption', width, height, loading: 'lazy' });
  return element('figure', {}, element('a', { href: `/api/evidence/${name}`, target: '_blank', rel: 'noopener' }, image),
    words ? element('figcaption', { dir: 'auto' }, words) : null);
}

// A button that asks for a reason, and then withdraws the event. Nothing is deleted.
function withdrawal(seq) {
  const place = element('span', { class: 'withdrawal' });
  const ask = () => {
    const reason = element('input', { type: 'text', 'aria-label': 'Why it is withdrawn', placeholder: 'Why (optional)', maxlength: 1000 });
    const withdraw = async () => {
      await tell(`/api/events/${seq}/withdraw`, { actor: ACTOR, ...(reason.value.trim() && { reason: reason.value.trim() }) });
    };
    reason.addEventListener('keydown', (event) => { if (event.key === 'Enter') withdraw(); });
    place.replaceChildren(reason, ' ', button('Withdraw', withdraw), ' ', button('Keep', () => place.replaceChildren(start), { class: 'link' }));
    reason.focus();
  };
  const start = button('Withdraw', ask, { class: 'link', 'aria-label': `Withdraw entry ${seq}` });
  place.append(start);
  return place;
}

async function tell(path, body) {
  try {
    await post(path, body);
    document.activeElement.blur();
    await renew();
  } catch (failure) {
    update({ failure: new Notice('Not recorded.', failure.message) });
  }
}

// -- adding --------------------------------------------------------------------------------------------------------

function composer() {
  caption = element('textarea', { rows: 2, 'aria-label': 'Note, or caption of the picture', placeholder: 'A note. Drop or paste a picture, then this is its caption.', dir: 'auto' });
  caption.addEventListener('keydown', (event) => { if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); add(); } });
  preview = element('div', { class: 'preview', hidden: true });
  const file = element('input', { type: 'file', accept: 'image/png,image/jpeg', class: 'unseen', tabindex: -1, 'aria-hidden': 'true' });
  file.addEventListener('change', () => { if (file.files[0]) take(file.files[0]); file.value = ''; });
  return element('div', { id: 'add-note', class: 'add-note' }, preview,
    element('div', { class: 'words' }, caption, file, element('div', { class: 'actions' }, button('Add', add, { class: 'primary' }),
      button('Choose a picture', () => file.click()),
      button('Picture of the editor', pinEditor, { title: 'Pin what the editor shows now' }),
      element('span', { class: 'quiet where' }))));
}

function takeFrom(event, source) {
  const image = [...(source?.files ?? [])].find(({ type }) => type.startsWith('image/'));
  if (!image) return;
  event.preventDefault();
  event.stopPropagation();
  take(image);
}

// Show the picture that is added next, and ask for its caption.
function take(image) {
  picture = image;
  const address = URL.createObjectURL(image);
  const shown = element('img', { src: address, alt: 'The picture that is added', onload: () => URL.revokeObjectURL(address) });
  preview.hidden = false;
  preview.replaceChildren(shown, button('×', drop, { class: 'icon', 'aria-label': 'Leave the picture out' }));
  if ($('events').hidden) open();
  caption.focus();
}

function drop() {
  picture = null;
  preview.hidden = true;
  preview.replaceChildren();
}

async function add() {
  const text = caption.value.trim();
  if (!text && !picture) {
    caption.focus();
    return;
  }
  try {
    if (picture) await pin(picture, text);
    else await post('/api/events', { kind: 'note', actor: ACTOR, key: state.navigation.key, text });
  } catch (failure) {
    update({ failure: new Notice('Not added.', failure.message) });
    return;
  }
  caption.value = '';
  drop();
  await renew();
}

const pin = (image, words) => upload(`/api/evidence?${new URLSearchParams({ actor: ACTOR, caption: words })}`, image);

// Pin what the editor shows, with the stop as its caption.
export async function pinEditor() {
  const canvas = document.querySelector('#editor canvas');
  const image = await new Promise((resolve) => { canvas.toBlob(resolve); });
  try {
    if (!image) throw new Error('the editor shows no picture');
    await pin(image, `The editor at ${nameOf(state.navigation.key)}`);
  } catch (failure) {
    update({ failure: new Notice('Not added.', sentence(failure.message)) });
    return;
  }
  if (!$('events').hidden) await renew();
}
