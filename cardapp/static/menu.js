// The menu: the learner whose record is shown, the cards of the series, the downloads, and the switch `Teacher`. A new
// browser is asked once for a name.

import { forget, setTeacher } from './actions.js';
import { recorded } from './answers.js';
import { get, post, put } from './api.js';
import { $, button, copyButton, element, fill, sentence } from './dom.js';
import { state, subscribe, update } from './state.js';

const ACTOR = 'page';
const ASKED = 'name asked';
let learners = null; // GET /api/learners
let cards = null; // GET /api/cards

export function start() {
  $('menu').onclick = open;
  $('menu-close').onclick = () => $('menu-panel').close();
  $('teacher').checked = state.teacher;
  $('teacher').onchange = (event) => setTeacher(event.target.checked);
  $('new-learner').onsubmit = (event) => submit(event, false);
  $('ask-name').onsubmit = (event) => submit(event, true);
  $('ask-later').onclick = asked;
  subscribe((changed) => { if (changed.has('learner')) label(); });
  label();
  if (!localStorage.getItem(ASKED)) askOnce();
}

function label() {
  const isNamed = state.learner !== null && state.learner !== 'unnamed';
  fill($('menu'), 'Menu', isNamed ? element('span', { class: 'whose' }, ` · ${state.learner}`) : null);
}

async function open() {
  say('');
  $('menu-panel').showModal();
  try {
    [learners, cards] = await Promise.all([get('/api/learners'), get('/api/cards')]);
    show();
  } catch (failure) {
    say(failure.message);
  }
}

// A reason why something failed.
const say = (text) => { $('menu-said').textContent = text && sentence(text); };

function show() {
  fill($('learners'), ...learners.learners.map(learnerRow));
  const { total, approved } = cards.progress;
  $('series').textContent = cards.cards.length > 1 ? `${approved} of ${total} steps approved in ${cards.cards.length} cards` : '';
  fill($('cards'), ...cards.cards.map(cardRow));
}

function learnerRow({ name, named, current }) {
  const shown = named ? name : 'Without a name';
  return element('li', {}, current ? element('b', { 'aria-current': 'true', dir: 'auto' }, shown) : button(shown, () => choose(name), { class: 'link', dir: 'auto' }));
}

function cardRow({ card, title, current, running, command, fault, progress }) {
  const name = title ?? card;
  const known = progress && element('span', { class: 'quiet' }, ` ${progress.approved}/${progress.total}`);
  if (current) return element('li', {}, element('b', { 'aria-current': 'true', dir: 'auto' }, name), known);
  if (running) return element('li', {}, button(name, () => chooseCard(card), { class: 'link', dir: 'auto' }), known);
  const why = fault ? sentence(fault) : 'No session runs. Start it in the project’s folder with:';
  return element('li', {}, element('span', { dir: 'auto' }, name), known, element('p', { class: 'quiet' }, why), fault ? null : copyButton(command));
}

// -- the learner ------------------------------------------------------------------------------------------------------

async function askOnce() {
  try {
    learners = await get('/api/learners');
  } catch {
    return; // asked at the next visit
  }
  $('ask-name').hidden = learners.learners.some(({ named }) => named);
}

function asked() {
  localStorage.setItem(ASKED, 'yes');
  $('ask-name').hidden = true;
}

// A name was typed: for the record that is shown, or for a new one.
async function submit(event, keepsRecord) {
  event.preventDefault();
  const field = event.target.querySelector('input');
  const name = field.value.trim();
  if (!name) return field.focus();
  const before = state.learner;
  if (keepsRecord) update({ learner: null }); // /api/live may send the new name first, and the record stays the same
  try {
    await recorded(); // the input until now belongs to the earlier learner
    const { current } = await post('/api/learners', { name, keep_record: keepsRecord, actor: ACTOR });
    asked();
    if (!keepsRecord) return forget();
    update({ learner: current });
  } catch (failure) {
    update({ learner: before });
    if (keepsRecord) refuse(field, failure);
    else say(failure.message);
  }
}

function refuse(field, failure) {
  field.setCustomValidity(sentence(failure.message));
  field.reportValidity();
  field.oninput = () => field.setCustomValidity('');
}

async function choose(name) {
  try {
    await recorded();
    await put('/api/learners/current', { name, actor: ACTOR });
    forget();
  } catch (failure) {
    say(failure.message);
  }
}

// -- the card ---------------------------------------------------------------------------------------------------------

// The page is loaded again when /api/live reports the other card.
async function chooseCard(card) {
  try {
    await recorded();
    await put('/api/cards/current', { card, actor: ACTOR });
    $('menu-panel').close();
  } catch (failure) {
    say(failure.message);
  }
}
