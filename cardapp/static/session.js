// Shows above the sheets whether the chosen session differs from the served card: it runs another card or another
// revision of this one, or files of its copy differ from the card's. The latter shows the difference and can restore
// the files.

import { refresh, restoreSources } from './actions.js';
import { $, button, element, fill, sentence } from './dom.js';
import { state, subscribe } from './state.js';

const WRONG = { other_card: 'This session is of another card.', other_revision: 'This session has another revision of the card.' };
const SIGNS = { changed: '', added: ' (new)', removed: ' (missing)' };
const LINES = { '+': 'added', '-': 'removed', '@': 'place' };

export function start() {
  subscribe((changed) => { if (['control', 'session', 'restored'].some((name) => changed.has(name))) show(); });
  addEventListener('focus', refresh); // the files may have been edited in another window
  show();
}

let shown = '';

function show() {
  const mismatch = state.control.session?.mismatch ?? null;
  const changes = state.session.changes ?? [];
  const now = JSON.stringify([mismatch, changes, state.restored]);
  if (now === shown) return; // drawing again would fold an open difference
  shown = now;
  $('session').hidden = !mismatch && !changes.length && !state.restored;
  fill($('session'),
    mismatch ? element('p', {}, element('b', {}, WRONG[mismatch.code]), ' ', sentence(mismatch.detail)) : null,
    ...(changes.length ? difference(changes) : []),
    state.restored && !changes.length ? element('p', {}, restored(state.restored)) : null);
}

function difference(changes) {
  const names = changes.map(({ file, kind }) => `${file}${SIGNS[kind]}`).join(', ');
  const summary = element('summary', {}, element('b', {}, 'The session’s code is not the card’s:'), ' ', names);
  return [
    element('details', {}, summary, ...changes.map(({ file, diff, truncated }) => (diff === null
      ? element('p', {}, `${file} is no text.`)
      : element('pre', { tabindex: 0, 'aria-label': `Difference of ${file}` }, ...diff.split('\n').map(diffLine),
        truncated ? element('span', {}, '…') : null)))),
    element('div', { class: 'actions' }, button('Restore', restoreSources, { title: 'Restore the card’s files; yours are kept beside them' })),
  ];
}

const diffLine = (line) => element('span', { class: LINES[line[0]] ?? '' }, `${line}\n`);

function restored(files) {
  const kept = files.filter(({ backup }) => backup).map(({ backup }) => backup);
  return `Restored: ${files.map(({ file }) => file).join(', ')}.${kept.length ? ` Your version is kept as ${kept.join(', ')}.` : ''}`;
}
