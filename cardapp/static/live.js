// Follows the control state: by the WebSocket /api/live, or by polling while the WebSocket is closed. A second page, the
// editor and other clients change the same state, so their changes are fetched here.

import { forget, readLast, refresh, reload, resend, takePosition, takeView } from './actions.js';
import { get, Notice, Refusal } from './api.js';
import { state, update } from './state.js';

const RETRY_MS = [250, 500, 1000, 2000, 4000];
const POLL_MS = 1000;
let failures = 0;
let isOpen = false;
let isPolling = false;

export function connect() {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(`${scheme}://${location.host}/api/live`, 'card-live.v1');
  socket.onopen = () => {
    isOpen = true;
    if (failures) resend();
    failures = 0;
    setConnected(true);
  };
  socket.onmessage = (message) => follow(JSON.parse(message.data));
  socket.onclose = () => {
    isOpen = false;
    failures += 1;
    if (failures > 1 && !isPolling) poll();
    setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
  };
}

// Poll, one request at a time, until the WebSocket is open again. An answer that arrives after the WebSocket has opened
// is dropped, because it is older than the messages of the WebSocket.
async function poll() {
  isPolling = true;
  while (!isOpen) {
    try {
      const control = await get('/api/control/state');
      if (isOpen) break;
      if (!state.connected) resend();
      setConnected(true);
      follow(control);
    } catch {
      if (!isOpen) setConnected(false);
    }
    await new Promise((resolve) => { setTimeout(resolve, POLL_MS); });
  }
  isPolling = false;
}

function setConnected(connected) {
  if (state.connected !== connected) update({ connected });
}

let newest = null; // the last control state
let taken = null; // the last control state whose changes were all fetched
let isFollowing = false;

// Take over a control state. If others arrive while its changes are fetched, the changes of all of them are fetched
// together afterwards.
async function follow(control) {
  taken ??= state.control;
  newest = control;
  update({ control });
  takePosition(control); // at once, because this needs no request
  if (isFollowing) return;
  isFollowing = true;
  try {
    while (taken !== newest) {
      const next = newest;
      await take(next, taken);
      taken = next;
    }
  } catch (failure) {
    // `taken` stays, so the next control state leads to another attempt.
    if (failure instanceof Refusal) update({ failure: new Notice('Not up to date.', failure.message) });
  } finally {
    isFollowing = false;
  }
}

async function take(control, before) {
  if (state.learner !== null && control.learner !== state.learner) return forget();
  if (control.card_revision !== before.card_revision) {
    await reload();
    return;
  }
  const tasks = [];
  if (control.viewer_revision !== state.viewer.revision) tasks.push(get('/api/viewer/state').then(takeView));
  const hasOther = JSON.stringify(control.session) !== JSON.stringify(before.session); // another session was chosen
  const last = control.checkpoint;
  const hasChanged = last?.operation_id !== before.checkpoint?.operation_id || last?.state !== before.checkpoint?.state;
  const hasEnded = hasChanged && last?.state !== 'running';
  const isOwn = hasEnded && state.syncing; // then the answer to this page's sync brings the result
  if (hasEnded && !isOwn) tasks.push(readLast());
  if ((hasEnded && !isOwn) || hasOther) tasks.push(refresh());
  await Promise.all(tasks);
}
