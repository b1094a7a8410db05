// Shows the state of SYNC.

import { cancel, go, sync } from './actions.js';
import { $, button, element, fill } from './dom.js';
import { failedHere, isAway, state, stepOf, subscribe } from './state.js';

const STAGES = ['binding', 'building', 'resetting', 'replaying', 'verifying'];
const REASONS = {
  source_changed: 'the card’s source changed', session_changed: 'another session was chosen',
  session_restarted: 'the session restarted', session_lost: 'the session ended', target_ran_on: 'the program ran on',
  program_exited: 'the program ended', sync_failed: 'the sync failed', sync_cancelled: 'the sync was cancelled',
  target_reset: 'the program was reset', debugger_lost: 'the debugger ended',
  session_paused: 'the session’s container is paused',
};

const PATIENCE_MS = 200; // a replay that ends earlier shows no stages, because they would only flicker
let busySince = 0; // when the replay that runs now was first seen
let timer = 0;

export function start() {
  $('sync').onclick = () => { if ($('sync').ariaDisabled !== 'true') sync(); };
  subscribe((changed) => {
    const has = (...names) => names.some((name) => changed.has(name));
    if (has('control', 'syncing', 'connected', 'session', 'navigation', 'viewer', 'isMapOpen', 'last', 'program')) syncState();
  });
  syncState();
}

function syncState() {
  const { control, connected, syncing } = state;
  const replay = control.checkpoint?.state === 'running' ? control.checkpoint : null;
  const isWaiting = syncing && !(control.checkpoint?.state === 'ready' && control.checkpoint.operation_id !== syncing.before);
  $('sync').ariaDisabled = String(Boolean(syncing) || replay !== null || isAway()); // a disabled button would lose the focus
  if (waitsForStages(connected && (replay || isWaiting))) return;
  const word = connected && control.sync === 'on' ? 'SYNC ON' : 'SYNC OFF';
  if (!connected) showSync('off', word, 'the service does not answer');
  else if (replay || isWaiting) showSync('busy', word, stages(replay?.stage ?? 'binding'), cancelButton);
  else if (control.sync !== 'on') showSync('off', word, offReason(control), isFailureElsewhere() ? whyButton : null);
  else if (control.at_position) showSync('on', word, `at this ${state.navigation.position.focus_level}`);
  else showSync('away', word, 'elsewhere', goButton);
}

// Whether the stages are not shown yet, because the replay began only just now. They are drawn when this time has
// passed.
function waitsForStages(isBusy) {
  clearTimeout(timer);
  busySince = isBusy ? busySince || performance.now() : 0;
  const left = isBusy ? busySince + PATIENCE_MS - performance.now() : 0;
  if (left > 0) timer = setTimeout(syncState, left);
  return left > 0;
}

const cancelButton = button('×', cancel, { class: 'cancel', 'aria-label': 'Cancel the replay', title: 'Cancel the replay' });
const goButton = button('Go there', () => go(state.control.key), { class: 'link', title: 'Go in the card to where the program is' });
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

const MOVED = { running: 'the program runs', exited: REASONS.program_exited };

function offReason({ reason }) {
  if (reason === 'target_ran_on') return MOVED[state.program?.state] ?? REASONS.target_ran_on;
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
