// Shows the state of SYNC, the result of a sync that succeeded, and the status of the step.

import { approve, cancel, go, sync } from './actions.js';
import { $, button, element, fill } from './dom.js';
import { failedHere, isAway, keepDraft, state, stepOf, subscribe } from './state.js';

const STAGES = ['binding', 'building', 'resetting', 'replaying', 'verifying'];
const REASONS = {
  source_changed: 'the card’s source changed', session_changed: 'another session was chosen',
  session_restarted: 'the session restarted', session_lost: 'the session ended', target_ran_on: 'the program ran on',
  program_exited: 'the program ended', sync_failed: 'the sync failed', sync_cancelled: 'the sync was cancelled',
  target_reset: 'the program was reset', debugger_lost: 'the debugger ended',
  session_paused: 'the session’s container is paused',
};

export function start() {
  $('sync').onclick = () => { if ($('sync').ariaDisabled !== 'true') sync(); };
  subscribe((changed) => {
    const has = (...names) => names.some((name) => changed.has(name));
    if (has('control', 'syncing', 'connected', 'session', 'navigation', 'viewer', 'last')) syncState();
    if (has('failure', 'last', 'dismissed', 'navigation', 'progress')) result();
    if (has('navigation', 'progress')) stepBar();
  });
  syncState();
  result();
  stepBar();
}

function syncState() {
  const { control, connected, syncing } = state;
  const replay = control.checkpoint?.state === 'running' ? control.checkpoint : null;
  $('sync').ariaDisabled = String(syncing || replay !== null || isAway()); // a disabled button would lose the focus
  const word = connected && control.sync === 'on' ? 'SYNC ON' : 'SYNC OFF';
  if (!connected) showSync('off', word, 'the service does not answer');
  else if (replay || syncing) showSync('busy', word, stages(replay?.stage ?? 'binding'), cancelButton);
  else if (control.sync !== 'on') showSync('off', word, offReason(control), isFailureElsewhere() ? whyButton : null);
  else if (control.at_position) showSync('on', word, `at this ${state.navigation.position.focus_level}`);
  else showSync('away', word, 'elsewhere', goButton);
}

const cancelButton = button('×', cancel, { class: 'cancel', 'aria-label': 'Cancel the replay', title: 'Cancel the replay' });
const goButton = button('Go there', () => go(state.control.key), { class: 'link' });
const whyButton = button('See why', () => go(stepOf(state.last.snapshot_ref)), { class: 'link' });
let shownSync = '';

// Draw the state only if it has changed, because a screen reader reads a live region again whenever it is drawn.
function showSync(kind, word, detail, action = null) {
  const now = `${kind} ${word} ${detail.outerHTML ?? detail} ${action?.textContent}`;
  if (now === shownSync) return;
  shownSync = now;
  $('sync-state').className = `sync-state ${kind}`;
  fill($('sync-state'), element('b', {}, word), ' · ', detail, ...(action ? [' ', action] : []));
}

// Whether the last sync failed at another position, which shows why.
function isFailureElsewhere() {
  const { control, last, dismissed } = state;
  return control.reason === 'sync_failed' && last !== null && last.operation_id !== dismissed && !failedHere();
}

function offReason({ reason }) {
  if (!reason && failedHere()) return failedHere().state === 'cancelled' ? REASONS.sync_cancelled : REASONS.sync_failed;
  if (reason === 'session_lost' && state.session.available) return REASONS.session_restarted;
  if (reason) return REASONS[reason] || reason.replaceAll('_', ' ');
  return state.session.available ? 'not synced yet' : 'no session';
}

function stages(current) {
  const at = STAGES.indexOf(current);
  const kind = (index) => (index < at ? 'past' : index === at ? 'now' : '');
  return element('span', { class: 'stages' }, ...STAGES.map((stage, index) => element('span', { class: kind(index) }, stage)));
}

// -- under the toolbar: the result of this step's last sync ------------------------------------------------------------

function result() {
  const parts = failedHere() || state.failure ? null : outcome();
  $('outcome').hidden = parts === null;
  fill($('outcome'), ...(parts || []));
}

function outcome() {
  const { last } = state;
  const step = stepOf(state.navigation.key);
  if (!step || !last || last.state !== 'ready' || stepOf(last.snapshot_ref) !== step || !last.observed) return null;
  const values = last.observed.checks.filter((check) => !['file', 'line', 'function'].includes(check.name));
  const answer = state.answers.get(step);
  const { file, line, function: name, method } = last.observed;
  const how = method === 'fork' ? 'restarted from a checkpoint' : 'run to the stop';
  const summary = `Stopped at ${file}:${line} in ${name}(), ${how} in ${Math.round(last.duration_ms)} ms.`;
  const rows = values.map((check) => [check.name, check.expected, check.actual, check.match]);
  return [
    element('details', { open: true }, element('summary', {}, element('b', {}, 'Proved. '), summary),
      element('div', { class: 'compare' },
        answer ? element('div', { class: 'own' }, element('h3', {}, 'Your answer'), element('p', { dir: 'auto' }, answer)) : null,
        rows.length ? table(['', 'Expected', 'Observed'], rows) : null)),
  ];
}

function table(heads, rows) {
  const head = element('tr', {}, ...[...heads, ''].map((text) => element('th', { scope: 'col' }, text)));
  const body = rows.map(([name, expected, seen, match]) => element('tr', { class: match === false ? 'different' : '' },
    element('th', { scope: 'row' }, element('code', {}, name)),
    ...[expected, seen].map((value) => element('td', {}, element('code', {}, String(value)))),
    element('td', {}, { true: '✓', false: '≠' }[match] ?? '')));
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...body));
}

// -- below the sheets: the step's status ---------------------------------------------------------------------------

function stepBar() {
  const step = stepOf(state.navigation.key);
  const item = step && state.progress.items.find((each) => each.key === step);
  const place = $('step-bar');
  place.hidden = !item;
  const shows = item && `${item.id} ${item.revision} ${pendingAfter(step)?.key}`;
  if (!item || place.dataset.shows === shows) return; // drawing again would lose a note that is being typed
  place.dataset.shows = shows;
  const done = item.status === 'approved';
  const note = element('input', { type: 'text', 'aria-label': 'Note on this step', placeholder: 'Note (optional)', value: item.note });
  keepDraft(note, `note ${step}`);
  note.addEventListener('keydown', (event) => {
    event.stopPropagation();
    if (event.key === 'Enter') approve(step, note.value);
  });
  fill(place,
    element('span', { class: `sign ${done ? 'done' : ''}` }, done ? '✓ Approved' : 'Pending'), note,
    button(done ? 'Withdraw' : 'Approve', () => approve(step, note.value),
      { id: 'approve', class: done ? '' : 'primary', title: `${done ? 'Withdraw' : 'Approve'} (A)` }),
    done ? nextButton(pendingAfter(step)) : null);
}

function nextButton(item) {
  return item ? button(`Next: ${item.title}`, () => go(item.key), { class: 'link' }) : null;
}

// The next step that is not approved. After the last step the search continues at the first step.
function pendingAfter(step) {
  const items = state.progress.items;
  const at = items.findIndex((item) => item.key === step);
  return [...items.slice(at + 1), ...items.slice(0, at)].find((item) => item.status === 'pending');
}
