// Three hints for the first visit, in the order of a lesson: move, answer, sync. One that was followed is not shown again.

import { button, element, fill, $ } from './dom.js';
import { state, subscribe } from './state.js';

const key = (name) => element('kbd', {}, name);
const HINTS = [
  { name: 'move', words: () => [key('→'), ' next step'] },
  { name: 'answer', words: () => ['Answer the question first'] },
  { name: 'sync', words: () => [key('⏎'), ' runs the program there'] },
];
let done = new Set(JSON.parse(localStorage.getItem('hints-done') || '[]'));
let position = null;

export function start() {
  position = state.navigation.key;
  subscribe((changed) => {
    if (changed.has('navigation') && state.navigation.key !== position) finish('move');
    if (changed.has('answers') && state.answers.size) finish('answer');
    if (changed.has('last') && state.last?.state === 'ready') finish('sync');
  });
  render();
}

function finish(...names) {
  if (names.every((name) => done.has(name))) return;
  done = new Set([...done, ...names]);
  localStorage.setItem('hints-done', JSON.stringify([...done]));
  render();
}

function render() {
  const open = HINTS.filter((hint) => !done.has(hint.name));
  $('hints').hidden = !open.length;
  fill($('hints'), ...open.map((hint) => element('span', {}, ...hint.words())),
    button('×', () => finish(...HINTS.map((hint) => hint.name)), { class: 'icon', 'aria-label': 'Close the hints' }));
}
