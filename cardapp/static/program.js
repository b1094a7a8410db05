// Over the editor: the buttons that move the program on from its stop, as gdb's commands do. Below the editor: its call
// stack and its locals, which are read only while they are shown, and the button of the memory.

import { go, sync, toggleMemory } from './actions.js';
import { isUncovered } from './answers.js';
import { get, Notice, post } from './api.js';
import { $, button, element, fill, sentence } from './dom.js';
import { currentStop, state, subscribe, update } from './state.js';

const MOVES = [['next', '⇥', 'Next line', 'F9'], ['step', '↳', 'Step', 'Shift+F9'], ['finish', '↰', 'Finish', 'Shift+F4']];
const NOT_MOVED = 'Program not moved.';
const SLOW_MS = 200; // a command that takes longer is shown as running
const READ_AGAIN_MS = 1000; // the page gets no message when the program moves without a command of the page
const WORDS = {
  stopped: ({ reason, file, line, function: name }) => `${reason ? `${reason} ` : ''}${file ? `${file}:${line}` : name ?? '??'}`,
  running: () => 'The program runs',
  exited: ({ reason }) => `Ended: ${reason}`,
  none: () => 'No program runs',
};
let toolbar, moves, goOnButton, backButton, said, regions, stack, variables, memoryButton;
let program = null; // the last answer of the service; null if it is not known where the program is now
let trouble = ''; // why there is no answer
let run = ''; // the replay or session that `program` belongs to
let revision = -1; // of the control state when the program was read last; SYNC goes off when the program moves
let requests = 0; // number of requests that were sent; only the answer to the last one counts
let moving = Promise.resolve(); // ends with the last command; the next one waits for it
let isMoving = false;
let timer = 0;

export function start() {
  moves = MOVES.map(([command, sign, name, keys]) => label(button('', () => move(command), { title: keys }), sign, name));
  goOnButton = button('', goOn, { title: 'F4' });
  backButton = label(button('', back), '⟲', 'Back to the stop');
  said = element('span', { class: 'quiet', role: 'status' });
  toolbar = element('div', { class: 'program', role: 'toolbar', 'aria-label': 'Program' }, ...moves, goOnButton, backButton, said);
  stack = region('Call stack');
  variables = region('Locals');
  $('editor').before(toolbar);
  memoryButton = label(button('', toggleMemory, { class: 'unfold', title: 'Alt+6' }), '▶', 'Memory');
  regions = element('div', { class: 'program-parts' }, stack, variables, memoryButton);
  $('editor').after(regions);
  subscribe((changed) => {
    if (['control', 'syncing', 'session', 'viewer', 'navigation', 'answers', 'teacher'].some((name) => changed.has(name))) show();
  });
  show();
}

function label(made, sign, name) {
  if (made.textContent !== `${sign} ${name}`) fill(made, element('span', { 'aria-hidden': 'true' }, sign), ` ${name}`);
  return made;
}

function region(name) {
  const details = element('details', { ontoggle: show }, element('summary', {}, name), element('div'));
  return element('section', { class: 'program-part', 'aria-label': name }, details);
}

// -- moving --------------------------------------------------------------------------------------------------------

export function move(command) {
  moving = moving.then(() => send(command));
}

async function send(command) {
  isMoving = true;
  const number = ++requests;
  const slow = setTimeout(() => say(WORDS.running()), SLOW_MS);
  try {
    const found = await post(`/api/program/${command}`, { actor: 'page' });
    if (state.failure?.heading === NOT_MOVED) update({ failure: null });
    take(found, number);
  } catch (failure) {
    update({ failure: new Notice(NOT_MOVED, failure.message) });
    await read(number);
  } finally {
    clearTimeout(slow);
    isMoving = false;
    show();
  }
}

const isRunning = () => program?.state === 'running';

// Let the program continue; if it runs, interrupt it.
export const goOn = () => move(isRunning() ? 'interrupt' : 'continue');

// Whether the toolbar can be seen.
export const isShown = () => toolbar.offsetParent !== null;

// Bring the program to the published stop. Before the first one, to that of the position.
async function back() {
  const { key } = state.control;
  if (key && key !== currentStop()) await go(key);
  await sync();
}

// -- reading -------------------------------------------------------------------------------------------------------

const isReplaying = () => state.syncing || state.control.checkpoint?.state === 'running';
const isCovered = () => !isUncovered(currentStop());
const isOpen = (part) => part.firstChild.open;

async function read(number) {
  revision = state.control.revision;
  take(await get('/api/program').catch((failure) => ({ trouble: sentence(failure.message) })), number);
}

function take(found, number) {
  if (number !== requests) return;
  trouble = found.trouble ?? '';
  program = trouble ? null : found;
  update({ program });
  show();
}

// After a replay or a change of the session the program is somewhere else.
function forget() {
  const now = JSON.stringify([isReplaying(), state.control.checkpoint?.operation_id, state.session.binding]);
  if (now === run) return;
  run = now;
  requests += 1;
  [program, trouble] = [null, ''];
  update({ program });
}

// Read the program as long as something of it is shown.
function plan() {
  clearTimeout(timer);
  const hasMoved = state.control.reason === 'target_ran_on';
  const isShown = program !== null || hasMoved || ((isOpen(stack) || isOpen(variables)) && !isCovered());
  if (toolbar.hidden || isReplaying() || isMoving || !isShown) return;
  const isFresh = (program || trouble) && revision === state.control.revision;
  timer = setTimeout(() => read(++requests), isFresh ? READ_AGAIN_MS : 0);
}

// -- drawing -------------------------------------------------------------------------------------------------------

function show() {
  forget();
  const hidden = !state.session.available || !state.viewer.viewer.editor.visible;
  for (const part of [toolbar, regions]) part.hidden = hidden;
  memoryButton.hidden = state.viewer.viewer.allocator.visible; // the open panel has its own button
  const isStopped = !program || program.state === 'stopped'; // also if it is not known
  for (const made of moves) made.disabled = isReplaying() || !isStopped;
  goOnButton.disabled = isReplaying() || !(isStopped || isRunning());
  label(goOnButton, ...(isRunning() ? ['‖', 'Interrupt'] : ['▶', 'Continue']));
  backButton.disabled = isReplaying();
  say(trouble || (program && WORDS[program.state](program)) || '');
  draw(stack, frames);
  draw(variables, locals);
  plan();
}

// An unchanged text is not set again, because a screen reader would read it again.
function say(text) {
  if (said.textContent === text) return;
  said.textContent = text;
  said.title = text;
}

const drawn = new WeakMap(); // region -> what it shows; drawing again would lose a selection

function draw(part, content) {
  if (!isOpen(part)) return;
  const text = isCovered() ? 'Covered until the program has stopped here.' : trouble;
  const now = JSON.stringify([text, program]);
  if (drawn.get(part) === now || (!text && !program)) return;
  drawn.set(part, now);
  const stopped = program?.state === 'stopped';
  fill(part.querySelector('div'), text || !stopped ? element('p', { class: 'quiet' }, text || WORDS[program.state](program)) : content());
}

function frames() {
  const rows = program.frames.map(({ level, function: name, file, line }) => element('tr', {}, element('td', { class: 'number' }, String(level)),
    element('th', { scope: 'row' }, element('code', {}, name ?? '??')), element('td', {}, file ? `${file}:${line}` : '')));
  return element('table', { class: 'values' }, element('tbody', {}, ...rows));
}

function locals() {
  if (!program.locals.length) return element('p', { class: 'quiet' }, 'This function has no local variables.');
  const rows = program.locals.map(({ name, type, value }) => element('tr', {}, element('th', { scope: 'row' }, element('code', {}, name)),
    element('td', { class: 'type quiet', title: type }, element('code', {}, type)), element('td', {}, element('code', {}, value))));
  return element('table', { class: 'values' }, element('tbody', {}, ...rows));
}
