// On the sheets: the values of the machine, covered until the step's question was answered, and the fields for answers.

import { answer, showValues } from './actions.js';
import { $, button, element } from './dom.js';
import { keepDraft } from './drafts.js';
import { state, stepOf } from './state.js';

const COVERED = new Set(['machine', 'memory']);

function isOpen(step) {
  return state.teacher || !step || state.revealed.has(step);
}

// Cover or show the values of each step on the page, tick the approved ones, and put the answers in their fields.
export function decorate(holder) {
  const approved = new Set(state.progress.items.filter((item) => item.status === 'approved').map((item) => item.key));
  for (const part of holder.querySelectorAll('.part')) {
    const { key, kind } = part.dataset;
    const step = stepOf(key);
    if (kind === 'step_title') part.classList.toggle('done', approved.has(key));
    if (COVERED.has(kind)) cover(part, step, isOpen(step));
    if (kind === 'states') for (const node of part.querySelectorAll('.node.state[data-key]')) coverState(node);
    if (kind === 'question') reply(part, step);
  }
}

// `visibility: hidden` of the class takes the values out of the accessibility tree too.
function cover(part, step, open) {
  const covering = part.querySelector(':scope > .cover');
  part.classList.toggle('covered', !open);
  if (open) covering?.remove();
  else if (!covering) part.append(element('div', { class: 'cover' }, button('Show values', () => showValues(step))));
}

// A state of the diagram lists the values of its snapshot, and names them in its title.
function coverState(node) {
  const { key } = node.dataset;
  const open = isOpen(stepOf(key));
  const title = node.querySelector('title');
  if (!stateTitles.has(node)) stateTitles.set(node, title.textContent);
  node.classList.toggle('covered', !open);
  title.textContent = open ? stateTitles.get(node) : state.catalog.item(key)?.title ?? '';
}

const stateTitles = new WeakMap();

function reply(part, step) {
  if (!step) return;
  const known = part.querySelector('.reply textarea');
  if (known) {
    known.defaultValue = state.answers.get(step) || ''; // shown unless somebody typed into the field
    label(known, step);
    return;
  }
  for (const line of part.querySelectorAll('.answer')) line.style.visibility = 'hidden';
  const field = element('textarea', { 'aria-label': 'Your answer', placeholder: 'Your answer', rows: 1 });
  field.defaultValue = state.answers.get(step) || '';
  keepDraft(field, `answer ${step}`);
  // The focus leaves the field with the answer, so that the next Enter syncs.
  const send = () => {
    const text = field.value.trim();
    if (!text) return;
    if (text !== state.answers.get(step)) answer(step, text);
    leaveField();
  };
  field.addEventListener('input', () => label(field, step));
  field.addEventListener('keydown', (event) => {
    event.stopPropagation(); // Enter in a text field never syncs
    if (event.key === 'Escape') leaveField();
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  const onsubmit = (event) => {
    event.preventDefault();
    send();
  };
  part.append(element('form', { class: 'reply', onsubmit }, field, element('button', { type: 'submit' })));
  label(field, step);
}

const leaveField = () => $('scroller').focus({ preventScroll: true });

function label(field, step) {
  const isAnswered = field.value.trim() !== '' && field.value.trim() === state.answers.get(step);
  field.form.querySelector('button').textContent = isAnswered ? 'Answered ✓' : 'Answer';
}
