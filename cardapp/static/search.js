// The search over titles, texts and code. Its matches stay while the learner looks at one after the other; each new search
// begins with an empty field or a selected text.

import { get } from './api.js';
import { go } from './actions.js';
import { $, element } from './dom.js';
import { state } from './state.js';

const WAIT_MS = 120; // after the last key
let timer = 0;

export function start() {
  $('search').addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT_MS);
  });
  $('search').addEventListener('focus', () => $('search').select());
  $('search').addEventListener('keydown', onFieldKey);
  $('matches').addEventListener('keydown', onMatchKey);
}

async function search() {
  clearTimeout(timer);
  const text = $('search').value.trim();
  const list = $('matches');
  if (!text) {
    list.hidden = true;
    return;
  }
  let rows;
  try {
    const { matches } = await get(`/api/search?text=${encodeURIComponent(text.slice(0, 200))}`);
    rows = matches.length ? matches.map((found) => match(found, text)) : [notFound(`Nothing in this card contains “${text}”.`)];
  } catch (failure) {
    rows = [notFound(failure.message)];
  }
  if ($('search').value.trim() !== text) return;
  list.hidden = false;
  list.replaceChildren(...rows);
}

const notFound = (reason) => element('li', { class: 'none' }, reason);

// A match: the number and the title of its position, and below it the text or the line of code.
function match({ key, kind, line, excerpt }, text) {
  const { number } = state.catalog;
  const title = state.catalog.item(key)?.title ?? ''; // the catalog may be older than the match
  const below = kind === 'title' ? null : element('span', { class: 'excerpt', dir: 'auto' }, ...marked(excerpt, text));
  const made = element('button', { type: 'button', class: kind, onclick: () => choose(made, key) },
    element('span', { class: 'number' }, `${number.get(key) ?? ''} `),
    element('span', { class: 'title', dir: 'auto' }, ...marked(title, text)),
    line ? element('span', { class: 'number' }, ` · line\u00a0${line}`) : null, below);
  return element('li', {}, made);
}

// The text with each hit in a <mark>. As in the search, case is ignored, and blanks between words count as one.
function marked(text, wanted) {
  const words = wanted.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return text.split(new RegExp(`(${words.join('\\s+')})`, 'iu'))
    .map((piece, at) => (at % 2 ? element('mark', {}, piece) : piece));
}

// Go to the match. The focus goes to the sheet, so that the next key does what the page says.
function choose(made, key) {
  $('matches').querySelector('[aria-current]')?.removeAttribute('aria-current');
  made.setAttribute('aria-current', 'true');
  go(key);
  $('scroller').focus({ preventScroll: true });
}

const firstMatch = () => ($('matches').hidden ? null : $('matches').querySelector('button'));

function clear() {
  clearTimeout(timer);
  $('search').value = '';
  $('matches').hidden = true;
}

function onFieldKey(event) {
  event.stopPropagation();
  if (event.key === 'Escape') {
    clear();
    $('search').blur();
  } else if (event.key === 'Enter') search().then(() => firstMatch()?.click()); // the typed text may be newer than the list
  else if (event.key === 'ArrowDown') {
    event.preventDefault(); // else the list scrolls
    firstMatch()?.focus();
  }
}

function onMatchKey(event) {
  const made = event.target.closest('button');
  if (!made || !['Escape', 'ArrowDown', 'ArrowUp'].includes(event.key)) return;
  event.preventDefault();
  event.stopPropagation();
  const row = made.parentElement;
  if (event.key === 'Escape') {
    clear();
    $('scroller').focus({ preventScroll: true });
  } else if (event.key === 'ArrowDown') row.nextElementSibling?.querySelector('button').focus();
  else (row.previousElementSibling?.querySelector('button') ?? $('search')).focus();
}
