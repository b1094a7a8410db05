// SYNC in words: the pill, what a sync found, and a refusal with the next action as a button.

import { approve, cancel, dismissFailure, go, reset, sync } from './actions.js';
import { $, button, copyButton, element, fill, sentence } from './dom.js';
import { put } from './api.js';
import { state, stepOf, subscribe } from './state.js';

const STAGES = ['binding', 'resetting', 'replaying', 'verifying'];
const REASONS = {
  source_changed: 'the card’s source changed', session_changed: 'another session was chosen', session_restarted: 'the session restarted',
  session_lost: 'the session ended', target_ran_on: 'the program ran on', target_reset: 'the program was reset', debugger_lost: 'the debugger ended',
};

export function start() {
  $('sync').onclick = sync;
  subscribe((changed) => {
    if (['control', 'syncing', 'connected', 'session', 'navigation'].some((name) => changed.has(name))) pill();
    if (['failure', 'last', 'navigation', 'session', 'connected', 'progress'].some((name) => changed.has(name))) result();
    if (['navigation', 'progress'].some((name) => changed.has(name))) stepBar();
  });
  pill();
  result();
  stepBar();
}

function pill() {
  const { control, connected } = state;
  const place = $('pill');
  let kind = 'off';
  const words = [];
  const running = control.checkpoint?.state === 'running';
  if (!connected) words.push('SYNC OFF', 'the service does not answer');
  else if (running) {
    kind = 'busy';
    words.push(control.sync === 'on' ? 'SYNC ON' : 'SYNC OFF', stages(control.checkpoint.stage));
  } else if (state.syncing) {
    kind = 'busy';
    words.push(control.sync === 'on' ? 'SYNC ON' : 'SYNC OFF', stages('binding'));
  } else if (control.sync === 'on') {
    kind = control.at_position ? 'on' : 'away';
    words.push('SYNC ON', control.at_position ? 'at this step' : 'elsewhere');
  } else words.push('SYNC OFF', REASONS[control.reason] || control.reason || (state.session.available ? 'not synced yet' : 'no session'));
  place.className = `pill ${kind}`;
  const way = kind === 'away' ? button('Go there', () => go(control.key), { class: 'link' })
    : kind === 'busy' ? button('×', cancel, { class: 'cancel', 'aria-label': 'Cancel the replay', title: 'Cancel the replay' }) : null;
  fill(place, element('b', {}, words[0]), ' · ', words[1], ...(way ? [' ', way] : []));
  $('sync').disabled = state.syncing || running;
}

function stages(current) {
  const at = STAGES.indexOf(current);
  return element('span', { class: 'stages' }, ...STAGES.map((stage, index) => element('span', { class: index < at ? 'past' : index === at ? 'now' : '' }, stage)));
}

// -- under the toolbar: what the last sync of this step found, or why it was refused ---------------------------------

function result() {
  const place = $('result');
  const parts = state.failure ? refusal(state.failure) : outcome();
  place.hidden = parts === null;
  place.className = `result ${state.failure ? 'bad' : ''}`;
  fill(place, ...(parts || []));
}

function refusal(failure) {
  const actions = [];
  const { code } = failure;
  if (code === 'cancelled_by_request') actions.push(button('Sync again', sync));
  else if (code === 'level_not_syncable') actions.push(button('Go to the first step', () => go(state.catalog.item(state.navigation.key).first_step).then(sync)));
  else if (code === 'notice') actions.push(button('Dismiss', dismissFailure));
  else if (code === 'offline') actions.push(button('Try again', sync));
  else if (failure.status === 503) actions.push(copyButton(state.session.start_command), button('Try again', sync));
  else {
    actions.push(button('Retry', sync), button('Reset', reset));
    const place = failure.problem?.observed ?? state.last?.observed;
    if (code === 'snapshot_drift' && place?.line) actions.push(button(`Open line ${place.line}`, () => put('/api/editor/cursor', { row: place.line, column: 0 }).catch(() => {})));
  }
  const checks = code === 'snapshot_drift' ? drift(failure) : null;
  return [element('p', {}, element('b', {}, failure.heading ?? 'Not synced.'), ' ', sentence(failure.message)), checks, element('div', { class: 'actions' }, ...actions)].filter(Boolean);
}

function drift(failure) {
  const checks = failure.problem?.observed?.checks ?? state.last?.observed?.checks;
  const wrong = checks?.filter((check) => !check.match);
  return wrong?.length ? table(['', 'Expected', 'Seen'], wrong.map((check) => [check.name, check.expected, check.actual ?? 'unreadable', false])) : null;
}

function outcome() {
  const { last } = state;
  const step = stepOf(state.navigation.key);
  if (!step || !last || last.state !== 'ready' || stepOf(last.snapshot_ref) !== step || !last.observed) return null;
  const values = last.observed.checks.filter((check) => !['file', 'line', 'function'].includes(check.name));
  const own = state.answers.get(step);
  const where = `${last.observed.file}:${last.observed.line} in ${last.observed.function}()`;
  const rows = values.map((check) => [check.name, check.expected, check.actual, check.match]);
  return [
    element('details', { open: true }, element('summary', {}, element('b', {}, 'Proved. '), `Stopped at ${where}, ${last.observed.method === 'fork' ? 'restarted from a checkpoint' : 'run to the stop'} in ${Math.round(last.duration_ms)} ms.`),
      element('div', { class: 'compare' }, own ? element('div', { class: 'own' }, element('h3', {}, 'Your answer'), element('p', { dir: 'auto' }, own)) : null,
        rows.length ? table(['', 'Expected', 'Observed'], rows) : null)),
  ];
}

function table(heads, rows) {
  return element('table', {}, element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head)))),
    element('tbody', {}, ...rows.map(([name, expected, seen, match]) => element('tr', { class: match ? '' : 'different' }, element('th', { scope: 'row' }, element('code', {}, name)),
      ...[expected, seen].map((value) => element('td', {}, element('code', {}, String(value))))))));
}

// -- below the sheets: the step's status ---------------------------------------------------------------------------

function stepBar() {
  const step = stepOf(state.navigation.key);
  const item = step && state.progress.items.find((each) => each.key === step);
  const place = $('step-bar');
  place.hidden = !item;
  if (!item || place.dataset.for === `${item.id} ${item.revision}`) return;
  place.dataset.for = `${item.id} ${item.revision}`;
  const done = item.status === 'approved';
  const note = element('input', { type: 'text', 'aria-label': 'Note on this step', placeholder: 'Note (optional)', value: item.note });
  note.addEventListener('keydown', (event) => {
    event.stopPropagation();
    if (event.key === 'Enter') approve(step, note.value);
  });
  fill(place,
    element('span', { class: `sign ${done ? 'done' : ''}` }, done ? '✓ Approved' : 'Pending'), note,
    button(done ? 'Withdraw' : 'Approve', () => approve(step, note.value), { id: 'approve', class: done ? '' : 'primary', title: 'Approve (A)' }),
    done ? next(step) : null);
}

function next(step) {
  const items = state.progress.items;
  const at = items.findIndex((item) => item.key === step);
  const following = [...items.slice(at + 1), ...items.slice(0, at)].find((item) => item.status === 'pending');
  return following ? button(`Next: ${following.title}`, () => go(following.key), { class: 'link' }) : null;
}
