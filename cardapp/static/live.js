// The control state as it changes: from the WebSocket /api/live, else by polling. A second page, the editor and other
// clients change the same state, so each difference is fetched here.

import { get } from './api.js';
import { load, merged, refresh, resend, reveal, save, show } from './actions.js';
import { state, stepOf, update } from './state.js';

const RETRY_MS = [250, 500, 1000, 2000, 4000];
let failures = 0;
let poll = 0;

export function connect() {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(`${scheme}://${location.host}/api/live`, 'card-live.v1');
  socket.onopen = () => {
    if (failures) resend();
    failures = 0;
    clearInterval(poll);
    update({ connected: true });
  };
  socket.onmessage = (message) => follow(JSON.parse(message.data));
  socket.onclose = () => {
    failures += 1;
    if (failures > 1) {
      clearInterval(poll);
      poll = setInterval(pollOnce, 1000);
      pollOnce();
    }
    setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
  };
}

async function pollOnce() {
  try {
    const control = await get('/api/control/state');
    update({ connected: true });
    await follow(control);
  } catch {
    update({ connected: false });
  }
}

async function follow(control) {
  const before = state.control;
  update({ control });
  if (!before) return;
  const tasks = [];
  if (control.card_revision !== before.card_revision) {
    await load();
    update({ cardChanged: control.card_revision });
    return;
  }
  if (control.navigation_revision > state.navigation.revision) takePosition(control);
  if (control.viewer_revision !== state.viewer.revision) tasks.push(takeViewer(control.viewer_revision));
  const ended = control.checkpoint?.operation_id !== before.checkpoint?.operation_id || control.checkpoint?.state !== before.checkpoint?.state;
  if (ended && control.checkpoint?.state !== 'running') tasks.push(takeResult(), refresh());
  await Promise.all(tasks);
}

function takePosition({ position_key: key, navigation_revision: revision }) {
  const { level } = state.catalog.item(key);
  show({ ...state.navigation, key, revision, position: { ...state.navigation.position, focus_level: level } });
}

// Flags and the page are taken over; scroll and scale belong to each tab, so that two tabs never echo each other.
async function takeViewer() {
  await save();
  const viewer = await get('/api/viewer/state');
  const scroll = { ...state.viewer.scroll };
  if (viewer.scroll.page_index !== scroll.page_index) Object.assign(scroll, { page_index: viewer.scroll.page_index, sheet_scroll_top: 0, x: 0, y: 0 });
  update({ viewer: merged(state.viewer, { scroll, viewer: viewer.viewer, revision: viewer.revision }) });
}

async function takeResult() {
  const { last } = await get('/api/checkpoint/status');
  if (last?.state === 'ready') reveal(stepOf(last.snapshot_ref));
  update({ last, ...(last?.state === 'ready' && { failure: null }) });
}
