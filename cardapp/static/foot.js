// The foot of the worksheet: the question of the current stop, a field for each value to predict, and one button for
// the next action: Predict, Run to the stop, Next. When the program has stopped there, each field becomes a row with
// the predicted and the actual value.

import * as actions from './actions.js';
import {
  answerDraft, askedAt, emptyAt, isAskingAgain, isKnown, isUnjudged, isWaiting, judge, LEFT_EMPTY, openHint, predict, predictionDraft, recordOf,
  saidOf, showValues, startAgain, typed,
} from './answers.js';
import { $, button, codeOf, element, fill } from './dom.js';
import * as finish from './finish.js';
import { readingOf } from './reading.js';
import { currentStop, draft, keepDraft, state, stepOf, stopOf, stopsBeside, subscribe } from './state.js';
import { focusPosition, fragment } from './worksheet.js';

const SHOWN = ['navigation', 'catalog', 'answers', 'control', 'session', 'progress', 'syncing', 'last', 'teacher'];
const SAID_MS = 2500;

export function start() {
  $('act').onclick = act;
  for (const kind of ['focusin', 'focusout']) $('foot').addEventListener(kind, () => queueMicrotask(showEnter));
  $('act').onkeydown = (event) => { if (event.repeat) event.preventDefault(); }; // a key that is held down acts once
  subscribe((changed) => { if (SHOWN.some((name) => changed.has(name))) render(); });
  render();
}

// Show the sign of the Enter key at the button that the key presses. This is the foot's button while the foot has the focus,
// and at the level of the card or a task, where Enter goes to the first step. Elsewhere it is Sync.
function showEnter() {
  const isInFoot = $('foot').contains(document.activeElement) || ['card', 'task'].includes(state.navigation.position.focus_level);
  $('foot').classList.toggle('has-enter', isInFoot);
  $('sync').classList.toggle('has-enter', !isInFoot);
}

// Whether the values are known, and there is no newer input.
const isOver = (stop) => isKnown(stop) && !isWaiting(stop);

function render() {
  const stop = currentStop();
  for (const part of ['foot-text', 'foot-hints', 'foot-values', 'foot-reason', 'foot-words', 'foot-more']) $(part).hidden = !stop;
  drawHead(stop);
  if (stop) for (const draw of [drawText, drawHints, drawValues, drawReason, drawWords, drawMore]) draw(stop);
  drawAct(stop);
  showEnter();
  cancelAnimationFrame(reaching);
  reaching = requestAnimationFrame(reach);
}

let reaching = 0;
const drawn = new WeakMap();

// Draw a part of the foot, but only if `shows` has changed. A control that had the focus from the keyboard gets it
// back.
function redraw(part, shows, make) {
  const place = $(part);
  const now = JSON.stringify(shows);
  if (drawn.get(place) === now) return;
  drawn.set(place, now);
  const focused = place.querySelector(':focus-visible');
  fill(place, ...make());
  place.scrollTop = 0; // it may have been scrolled to the last field
  if (!focused) return;
  const again = [...place.querySelectorAll('button:enabled, input, textarea')].find((each) => labelOf(each) === labelOf(focused));
  (again ?? $('act')).focus({ preventScroll: true });
}

const labelOf = (control) => control.ariaLabel ?? control.textContent;

// -- where the learner is -------------------------------------------------------------------------------------------

function drawHead(stop) {
  const { key } = state.navigation;
  if (!stop) {
    const count = state.catalog.stepsBelow(key).length;
    redraw('foot-head', [key, count], () => [element('b', {}, `${count} step${count === 1 ? '' : 's'}`)]);
    return;
  }
  const step = state.catalog.item(stepOf(stop));
  const stops = stopsBeside(stop);
  const number = stops.findIndex((item) => item.key === stop) + 1;
  const place = placeOf(stop);
  redraw('foot-head', [stop, place], () => [
    element('span', { class: 'where' }, element('b', {}, `Step ${step.index + 1} of ${state.catalog.stepCount}`),
      stops.length > 1 ? ` · stop ${number} of ${stops.length}` : null),
    ...(stops.length > 1 ? [stopButton(-1, number === 1), stopButton(1, number === stops.length)] : []),
    element('span', { class: 'quiet' }, place.words),
    place.key ? button(place.other, () => actions.go(place.key), { class: 'link quiet', title: 'Go there' }) : null,
  ]);
}

function stopButton(delta, disabled) {
  const [label, sign, keys] = delta < 0 ? ['Previous stop', '◂', 'Shift+←'] : ['Next stop', '▸', 'Shift+→'];
  return button(sign, () => actions.moveStop(delta), { class: 'icon', 'aria-label': label, title: `${label} (${keys})`, disabled });
}

// Whether the program is at the stop, in words. If it is at another one, also where, and the key of that stop.
function placeOf(stop) {
  const { sync, key } = state.control;
  const { file, line } = (isLastAt(stop) && state.last.observed) || {};
  if (sync === 'on' && key === stop) return { words: file ? `Stopped here, ${file}:${line}` : 'Stopped here' };
  const words = recordOf(stop).proved_at ? 'Run before' : 'Not run yet';
  if (sync !== 'on' || !stopOf(key)) return { words };
  const isBeside = stepOf(key) === stepOf(stop);
  const number = isBeside ? `stop ${1 + stopsBeside(stop).findIndex((item) => item.key === key)}` : state.catalog.number.get(stepOf(key));
  return { words, other: `Stopped at ${number}`, key };
}

const isLastAt = (stop) => state.last?.state === 'ready' && state.last.snapshot_ref === stop;

// -- the question ---------------------------------------------------------------------------------------------------

function drawText(stop) {
  const { question_html: question } = state.catalog.item(stepOf(stop));
  $('foot-text').hidden = !question;
  redraw('foot-text', [stop, question], () => (question ? [fragment('question', question)] : []));
}

// The opened hints, scrolled to the newest one.
function drawHints(stop) {
  const all = state.catalog.item(stop).hints_html;
  const hints = isOver(stop) ? [] : all.slice(0, recordOf(stop).hints);
  $('foot-hints').hidden = !hints.length;
  redraw('foot-hints', [stop, hints], () => hints.map((hint, at) => element('div', { class: 'hint-row' },
    element('span', { class: 'quiet' }, `hint ${at + 1} of ${all.length}`), fragment('hint', hint))));
  if (hints.length) $('foot-hints').scrollTop = $('foot-hints').scrollHeight;
}

// The explanation of the values.
function drawReason(stop) {
  const { explanation_html: explanation } = state.catalog.item(stop);
  const shown = isOver(stop) && explanation ? explanation : null;
  $('foot-reason').hidden = !shown;
  redraw('foot-reason', [stop, shown], () => (shown ? [fragment('explanation', shown)] : []));
}

// Let the keyboard scroll a part that is higher than its room. Not at once, because it measures the parts.
function reach() {
  for (const part of ['foot-text', 'foot-hints', 'foot-reason'].map($)) {
    if (part.scrollHeight > part.clientHeight) part.tabIndex = 0;
    else part.removeAttribute('tabindex');
  }
}

// -- the values -----------------------------------------------------------------------------------------------------

function drawValues(stop) {
  if (isOver(stop) && !isAskingAgain(stop)) drawRows(stop);
  else redraw('foot-values', [stop, askedAt(stop).map((expression) => saidOf(stop, expression))], () => fields(stop));
}

function fields(stop) {
  const asked = askedAt(stop);
  const made = asked.map((expression, number) => {
    const field = element('input', {
      type: 'text', 'aria-label': expression, maxlength: MAX_TYPED, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
    });
    field.value = saidOf(stop, expression) ?? '';
    keepDraft(field, predictionDraft(stop, expression));
    bindField(field);
    return element('label', { class: 'value' }, nameOf(expression), field, readingOf(stop, expression, field, number));
  });
  return asked.length ? [element('p', { class: 'quiet legend', role: 'status' }, askedOf(stop)), ...made] : [];
}

const MAX_TYPED = 1000; // characters that the service takes
const askedOf = (stop) => `What will the program have ${state.catalog.item(stop).place}?`;
const MISSING = 'Write a value first, or choose “I don’t know”.';
const leftEmpty = (count) => `${count === 1 ? 'A value is' : `${count} values are`} empty, and would count as not right.`;

// Show the message `missing` in place of the question; without a message, show the question again.
function remind(missing = '') {
  const legend = $('foot-values').querySelector('.legend');
  if (!legend) return;
  legend.textContent = missing || askedOf(currentStop());
  legend.classList.toggle('missing', missing !== '');
}

// Enter predicts and moves the focus to the button, so that the next Enter runs the program.
function bindField(field) {
  field.addEventListener('input', () => { remind(); drawAct(currentStop()); });
  field.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'Escape') focusPosition();
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) tryToPredict();
  });
}

const nameOf = (expression) => codeOf(expression, { class: 'name', title: expression });

function drawRows(stop) {
  const rows = rowsOf(stop);
  const { by } = recordOf(stop);
  const judged = rows.filter(({ right }) => right !== null);
  const score = judged.length ? `${judged.filter(({ right }) => right).length} of ${judged.length} right` : '';
  const hasSaid = rows.some(({ said }) => said !== null);
  const heads = [score, hasSaid ? 'You said' : '', by === 'card' ? 'By the card' : 'The program has'];
  redraw('foot-values', [stop, rows, heads], () => rows.length ? [table(heads, rows, hasSaid)] : []);
}

// {expression, said, seen, right} for each predicted and each undefined value. Without a prediction, the values come
// from the last run.
function rowsOf(stop) {
  const { latest } = recordOf(stop);
  const { undefined: undefinedOnes } = state.catalog.item(stop);
  const read = isLastAt(stop) ? state.last.observed?.values ?? {} : {};
  return [...new Set([...askedAt(stop), ...undefinedOnes])].map((expression) => {
    const isUndefined = undefinedOnes.includes(expression);
    const seen = isUndefined ? 'undefined' : read[expression]?.value ?? null;
    const told = latest.find((each) => each.expression === expression);
    const shown = !seen || seen === told?.seen ? told?.shown : undefined; // a later run may have another value
    return { said: null, right: null, ...told, expression, isUndefined, ...(seen && { seen }), shown };
  }).filter(({ seen, empty }) => seen || empty);
}

function table(heads, rows, hasSaid) {
  const head = element('div', { role: 'row', class: 'heads' }, ...heads.map((text) => element('span', { role: 'columnheader' }, text)));
  return element('div', { role: 'table', class: 'rows', 'aria-label': 'What you said and what the program has' },
    head, ...rows.map((each) => row(each, hasSaid)));
}

const SIGNS = { true: ['✓', 'right'], false: ['✗', 'wrong'], null: ['', ''] };

// A value and what was said are in one notation; the title is the value in the other one.
function row({ expression, said, seen, right, empty, shown, isUndefined }, hasSaid) {
  const [sign, word] = SIGNS[right];
  const note = isUndefined && said !== null ? 'not judged' : right === false && !empty ? word : '';
  const mine = empty ? element('em', {}, LEFT_EMPTY) : codeOf(shown?.said ?? said ?? (hasSaid ? '—' : ''), { title: shown?.said_title });
  return element('div', { role: 'row', class: word },
    element('span', { role: 'rowheader' }, nameOf(expression)),
    element('span', { role: 'cell', class: 'said' }, mine, ' ',
      element('span', { class: 'verdict' }, element('span', { 'aria-hidden': 'true' }, sign), note ? ` ${note}` : null)),
    element('span', { role: 'cell', class: 'seen' }, codeOf(shown?.seen ?? seen ?? '—', { title: shown?.seen_title })));
}

// -- the answer in words ----------------------------------------------------------------------------------------------

const JUDGEMENTS = [['yes', 'Yes'], ['partly', 'Partly'], ['no', 'No']];

function drawWords(stop) {
  const { question } = state.catalog.item(stepOf(stop));
  const { answer, self } = recordOf(stop);
  $('foot-words').hidden = !question;
  redraw('foot-words', [stop, answer, isOver(stop), self], () => [answerField(stop), isOver(stop) ? judgement(stop, self) : null]);
}

function answerField(stop) {
  const field = element('textarea', { rows: 1, 'aria-label': 'Your answer', placeholder: 'Your answer in words', dir: 'auto' });
  field.value = recordOf(stop).answer ?? '';
  keepDraft(field, answerDraft(stop));
  bindField(field);
  return field;
}

function judgement(stop, self) {
  return element('div', { class: 'judgement', role: 'group', 'aria-label': 'Did you get it?' }, 'Did you get it?',
    ...JUDGEMENTS.map(([name, label]) => button(label, () => judgeAs(stop, name), { 'aria-pressed': String(name === self) })));
}

function judgeAs(stop, name) {
  judge(stop, name);
  $('act').focus({ preventScroll: true }); // so that Enter goes on
}

// -- note and approval ------------------------------------------------------------------------------------------------

function drawMore(stop) {
  const step = stepOf(stop);
  const { status, note } = actions.progressOf(step);
  const isApproved = status === 'approved';
  redraw('foot-more', [step, status, note], () => [
    noteField(step, note),
    button(isApproved ? 'Withdraw' : 'Approve', () => actions.approve(step),
      { title: isApproved ? 'Withdraw the approval of the step (A)' : 'Approve the step (A)' }),
  ]);
}

function noteField(step, note) {
  const field = element('input', { type: 'text', 'aria-label': 'Your note on this step', placeholder: 'Note' });
  field.value = note;
  keepDraft(field, actions.noteDraft(step));
  field.addEventListener('keydown', async (event) => {
    if (event.key === 'Escape') focusPosition();
    if (event.key !== 'Enter' || event.isComposing) return;
    await actions.keepNote(step);
    say('Note kept.');
  });
  return field;
}

// -- the button -------------------------------------------------------------------------------------------------------

function nextAct(stop) {
  if (!stop) return 'begin';
  const { answer, values } = typed(stop);
  if (values && emptyAt(stop).length && warned.has(stop)) return 'anyway';
  if (answer || values) return 'predict';
  if (isWaiting(stop)) return 'run';
  if (isKnown(stop)) return 'next';
  return recordOf(stop).answer || !hasFields(stop) ? 'run' : 'predict';
}

const hasFields = (stop) => askedAt(stop).length > 0 || Boolean(state.catalog.item(stepOf(stop)).question);

const warned = new Set(); // stops at which the learner was told of the empty fields

const LABELS = { begin: 'Go to the first step', predict: 'Predict', anyway: 'Predict anyway', run: 'Run to the stop', next: 'Next' };

function drawAct(stop) {
  const next = nextAct(stop);
  redraw('act', next, () => [LABELS[next], ' ', element('kbd', { 'aria-hidden': 'true' }, '⏎')]);
  const isRunning = state.syncing || (isLastAt(stop) && isUnjudged(stop));
  $('act').setAttribute('aria-disabled', String(next === 'run' && isRunning));
  const others = stop ? otherActs(stop, next) : [];
  redraw('foot-other', [stop, next, others.map(([label]) => label)], () => others.map(([label, run]) => button(label, run, { class: 'link quiet' })));
}

// The other possible actions, as [label, action].
function otherActs(stop, next) {
  const others = [];
  if (['predict', 'anyway'].includes(next) && !isKnown(stop)) others.push(['I don’t know', () => runUnpredicted(stop)]);
  if (next === 'next' && askedAt(stop).length) others.push(['Predict again', () => predictAgain(stop)]);
  if (!isOver(stop) && recordOf(stop).hints < state.catalog.item(stop).hints_html.length) others.push(['Hint', () => hint(stop)]);
  return others;
}

function hint(stop) {
  openHint(stop);
  focusFirst();
}

function predictAgain(stop) {
  warned.delete(stop);
  startAgain(stop);
  focusFirst();
}

// Without a session there is nothing to run, so the card's values are shown.
async function runUnpredicted(stop) {
  $('act').focus();
  if (state.session.available) await actions.sync();
  else showValues(stop);
}

function act() {
  if ($('act').ariaDisabled === 'true') return;
  const stop = currentStop();
  const acts = { begin, predict: tryToPredict, anyway: tryToPredict, run: actions.sync, next: goOn };
  return acts[nextAct(stop)]();
}

async function begin() {
  const going = actions.goFirst();
  focusFirst();
  await going;
}

function tryToPredict() {
  const stop = currentStop();
  const empty = emptyAt(stop);
  if (nextAct(stop) === 'predict' && typed(stop).values && empty.length) {
    warned.add(stop);
    remind(leftEmpty(empty.length));
    drawAct(stop);
    focusFirst();
    return;
  }
  warned.delete(stop);
  if (predict(stop) || nextAct(stop) !== 'predict') {
    $('act').focus();
    return;
  }
  remind(MISSING);
  focusFirst();
}

function goOn() {
  if (actions.goOn()) focusFirst();
  else finish.open();
}

// The first field without a prediction; null if none is visible.
export function emptyField() {
  const fields = [...$('foot-values').querySelectorAll('input')];
  return fields.find((field) => field.value === '' && field.offsetParent) ?? null;
}

function focusFirst() {
  (emptyField() ?? $('act')).focus({ preventScroll: true });
}

// Show a message for a moment in the place of the other actions.
function say(words) {
  $('foot-said').textContent = words;
  setTimeout(() => { $('foot-said').textContent = ''; }, SAID_MS);
}
