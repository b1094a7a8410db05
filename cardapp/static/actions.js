// Everything that a person can do on the page by a key or a button. Each action sends a request to the service and
// updates the state; the views are drawn from the state.

import { predict, recorded, recordTeacher, resendEvents, takeLast } from './answers.js';
import { get, Notice, Offline, post, put, Refusal } from './api.js';
import { Catalog, currentStop, draft, dropDraft, isAway, state, stepOf, stopsBeside, update } from './state.js';

const ACTOR = 'page';
const FIELDS = ['task_id', 'block_id', 'phase_id', 'step_id'];

async function read() {
  const [all, catalog, keyboard, progress] = await Promise.all([
    get('/api/state'), get('/api/navigation/catalog'), get('/api/keyboard'), get('/api/progress'),
  ]);
  return {
    identity: all.identity, learner: all.control.learner, session: all.session, navigation: all.navigation, viewer: all.viewer,
    control: all.control, last: all.checkpoint.last, catalog: new Catalog(catalog), keyboard, progress,
  };
}

export async function load() {
  update(await read());
  const unsaved = sessionStorage.getItem('unsaved-view');
  if (unsaved) view(JSON.parse(unsaved));
  sessionStorage.removeItem('unsaved-view');
  resendEvents();
}

// Call this after the card's files have changed. This tab keeps its scroll and scale. If the service has another card
// now, the page is loaded again.
export async function reload() {
  const { viewer, control, ...rest } = await read(); // /api/live may have sent a newer control state
  if (rest.identity.uuid !== state.identity.uuid) return startOver();
  update(rest);
  takeView(viewer);
}

// -- navigation ----------------------------------------------------------------------------------------------------

export async function go(key) {
  const item = state.catalog.item(key);
  if (!item) return;
  const parts = key ? key.split('/') : [];
  const body = { focus_level: item.level, actor: ACTOR };
  FIELDS.forEach((name, at) => { if (parts[at]) body[name] = parts[at]; });
  if (parts.length === 5) body.snapshot_ref = key;
  const before = state.navigation;
  // The new position is shown at once; the service's answer confirms it.
  show({ ...state.navigation, key, position: { ...state.navigation.position, focus_level: item.level } });
  await settle(() => put('/api/navigation/current', body), before);
}

export const move = (delta, level) => settle(() => post('/api/navigation/move', { delta, actor: ACTOR, ...(level && { level }) }));

// Move on the focus level. If the focus is the card, which has no neighbour, move on the step level.
export const moveOn = (delta) => move(delta, state.navigation.position.focus_level === 'card' ? 'step' : undefined);

export const moveStep = (delta) => move(delta, 'step');

export const goFirst = () => go(state.catalog.item(state.navigation.key).first_step);

// Go to another stop of the same step, if there is one.
export function moveStop(delta) {
  const stop = currentStop();
  const stops = stop ? stopsBeside(stop).map((item) => item.key) : [];
  const wanted = stops[stops.indexOf(stop) + delta];
  if (wanted) return go(wanted);
}

// Go to the next stop of the card, in the same step or in the next one. Returns whether there is one.
export function goOn() {
  const stops = state.catalog.stops.map((item) => item.key);
  const next = stops[stops.indexOf(currentStop()) + 1];
  if (next) go(stepOf(next) === stepOf(currentStop()) ? next : stepOf(next));
  return Boolean(next);
}

export function focus(level) {
  const { key } = state.navigation;
  const depth = state.catalog.levels.indexOf(level);
  const parts = key ? key.split('/') : [];
  let wanted = parts.slice(0, depth).join('/');
  while ((wanted ? wanted.split('/').length : 0) < depth) {
    const children = state.catalog.children.get(wanted);
    if (!children) break;
    wanted = children[0].key;
  }
  return go(wanted);
}

export function focusBy(delta) {
  const { levels } = state.catalog;
  const at = levels.indexOf(state.navigation.position.focus_level) + delta;
  if (at >= 0 && at < levels.length) return focus(levels[at]);
}

// Changes of the position are numbered in the order in which they begin.
let moving = Promise.resolve(); // ends with the last change; a sync or the next move waits for it
let asked = 0; // the last change that has begun
let settled = 0; // the last change that has ended
let chosen = 0; // the last change to a known position, which is shown before the service answers

// Queue `request`, which changes the position. `before` is the position to return to if the request fails; it is given
// only for a change to a known position.
function settle(request, before = null) {
  asked += 1;
  if (before) chosen = asked;
  const number = asked;
  moving = moving.then(() => take(request, before, number));
  return moving;
}

async function take(request, before, number) {
  try {
    const navigation = await request();
    if (number < chosen) update({ navigation: { ...state.navigation, revision: navigation.revision } });
    else if (navigation.revision >= state.navigation.revision) show(navigation);
  } catch (failure) {
    if (before && number === chosen) show(before);
    update({ failure: new Notice('Not moved.', failure.message) });
  } finally {
    settled = number;
    takePosition(state.control);
  }
}

// Follow another client's move. While a change by this tab is unanswered, the other client's move is ignored.
export function takePosition({ position_key: key, navigation_revision: revision }) {
  const item = state.catalog.item(key);
  if (!item || settled < chosen || revision <= state.navigation.revision) return;
  show({ ...state.navigation, key, revision, position: { ...state.navigation.position, focus_level: item.level } }, false);
}

// Take over a position and turn to its page. `isOwn` says whether this tab moved. If another tab moved, that tab saves its
// scroll position on the new page.
export function show(navigation, isOwn = true) {
  if (navigation.key !== state.navigation.key && state.failure?.code === 'notice') update({ failure: null });
  update({ navigation });
  const page = state.catalog.item(navigation.key)?.page_index ?? 0;
  if (page === state.viewer.scroll.page_index) return;
  const scroll = { page_index: page, sheet_scroll_top: 0, x: 0, y: 0 };
  view({ scroll }, isOwn ? { scroll } : { scroll: { page_index: page } });
}

// Show the page of the position again.
export function goBack() {
  update({ isMapOpen: false });
  show(state.navigation);
}

// -- sync ----------------------------------------------------------------------------------------------------------

// Bring the program to the position. Values that were typed there count as predictions. The card and a task have no
// stop, so the first step is shown.
export async function sync() {
  if (isAway()) return goBack();
  if (state.syncing) return;
  if (['card', 'task'].includes(state.navigation.position.focus_level)) {
    await goFirst();
    return;
  }
  if (currentStop()) predict(currentStop());
  update({ syncing: { before: state.control.checkpoint?.operation_id }, failure: null, restored: null });
  await Promise.all([moving, recorded()]);
  try {
    takeLast(await post('/api/navigation/sync', { actor: ACTOR }));
  } catch (failure) {
    const last = failure.problem?.operation; // a sync that began and failed
    update(last ? { last } : { failure });
    if (failure instanceof Offline) readLast().catch(() => {}); // the answer is lost, but the sync may have ended
  } finally {
    update({ syncing: null });
    refresh();
  }
}

// Read the last finished operation again.
export async function readLast() {
  takeLast((await get('/api/checkpoint/status')).last);
}

// End the running replay, which another client may have started. The request that started it fails with
// `cancelled_by_request`.
export async function cancel() {
  try {
    await post('/api/checkpoint/cancel', { actor: ACTOR });
  } catch (failure) {
    if (failure.code !== 'nothing_running') update({ failure });
  }
}

export async function reset() {
  try {
    await post('/api/editor/reset', { actor: ACTOR });
    dismiss();
  } catch (failure) {
    update({ failure });
  }
  refresh();
}

// Replace the session's edited files by the card's. The service keeps the edited ones beside them.
export async function restoreSources() {
  try {
    const { restored, changes } = await post('/api/session/restore', { actor: ACTOR });
    update({ restored, session: { ...state.session, changes } });
  } catch (failure) {
    update({ failure: new Notice('Not restored.', failure.message) });
  }
}

// Show a line of a file in the editor.
export async function openLine(file, line) {
  if (!state.viewer.viewer.editor.visible) view({ viewer: { editor: { visible: true } } });
  try {
    await put('/api/editor/cursor', { row: line, column: 0, file });
  } catch (failure) {
    update({ failure: new Notice('Not opened.', failure.message) });
  }
}

export async function redraw(size) {
  try {
    await post('/api/editor/redraw', { actor: ACTOR, ...size });
  } catch (failure) {
    update({ failure });
  }
}

// Read the state again that the end of a replay changes, except the control state. The control state comes from
// /api/live alone, because the answer to a request could be older.
export async function refresh() {
  const requests = [get('/api/progress'), get('/api/state')];
  const [progress, all] = await Promise.all(requests).catch(() => []);
  if (progress) update({ progress, session: all.session });
}

// -- the view ------------------------------------------------------------------------------------------------------

const SAVE_MS = 250;
let pending = {}; // the changes that are not sent yet
let sent = {}; // the changes of the request that is not answered yet
let saving = Promise.resolve();
let timer = 0;

const isEmpty = (patch) => !Object.keys(patch).length;
const putView = (patch, options) => put('/api/viewer/state', { ...patch, actor: ACTOR }, options);

// Change a part of the viewer state here at once. It is sent to the service a moment later, but a flag is sent at once.
export function view(patch, saved = patch) {
  update({ viewer: merged(state.viewer, patch) });
  pending = merged(pending, saved);
  clearTimeout(timer);
  timer = setTimeout(save, 'viewer' in pending ? 0 : SAVE_MS);
}

// Save the remaining changes when the page is left. They are also stored for the next load of the page, which may be
// faster than this request.
export function leave() {
  const unsaved = merged(sent, pending);
  if (isEmpty(unsaved)) return;
  sessionStorage.setItem('unsaved-view', JSON.stringify(unsaved));
  putView(unsaved, { keepalive: true }).catch(() => {});
}

// One request at a time, so that an earlier value never arrives after a later one.
function save() {
  clearTimeout(timer);
  saving = saving.then(savePending);
}

// Call this when the service answers again. Sends the unsaved view, then the unsent events.
export function resend() {
  save();
  refresh();
  resendEvents();
}

async function savePending() {
  if (isEmpty(pending)) return;
  [sent, pending] = [pending, {}];
  try {
    const saved = await putView(sent);
    sent = {};
    takeView(saved);
  } catch (failure) {
    const isRefused = failure instanceof Refusal;
    if (!isRefused) pending = merged(sent, pending); // kept until the service answers again
    sent = {};
    if (!isRefused) return;
    update({ failure: new Notice('View not saved.', failure.message) });
    await get('/api/viewer/state').then(takeView).catch(() => {});
  }
}

// Take over the flags and the page of the stored view. Each tab has its own scroll and scale, so a scroll in one tab does
// not move another. Changes that are not saved yet remain.
export function takeView(stored) {
  if (stored.revision < state.viewer.revision) return;
  const { page_index } = stored.scroll;
  const scroll = page_index === state.viewer.scroll.page_index ? {} : { page_index, sheet_scroll_top: 0, x: 0, y: 0 };
  const taken = merged(state.viewer, { scroll, viewer: stored.viewer, revision: stored.revision });
  update({ viewer: merged(merged(taken, sent), pending) });
}

export function merged(base, patch) {
  const result = { ...base };
  for (const [name, value] of Object.entries(patch)) {
    const isObject = value !== null && typeof value === 'object' && !Array.isArray(value);
    result[name] = isObject ? merged(base[name] || {}, value) : value;
  }
  return result;
}

export function toggleMemory() {
  view({ viewer: { allocator: { visible: !state.viewer.viewer.allocator.visible } } });
}

// One shortcut turns the panel's stream and the keyboard on together.
export function toggleControl() {
  if (state.viewer.viewer.editor.control) view({ viewer: { editor: { control: false } } });
  else takeControl();
}

export let granting = null; // while the service does not know yet that the editor has control: a promise

// The service drops keys and clicks until it has saved the flag.
export function takeControl() {
  view({ viewer: { editor: { visible: true, sync: true, control: true } } });
  save();
  granting = saving.then(() => { granting = null; });
}

// -- progress -------------------------------------------------------------------------------------------------------

// Approve a step, or withdraw the approval. A note that was typed is kept with it.
export function approve(step) {
  if (isAway()) return Promise.resolve();
  return setProgress(step, progressOf(step).status === 'approved' ? 'pending' : 'approved');
}

export const keepNote = (step) => setProgress(step, progressOf(step).status);

export const progressOf = (step) => state.progress.items.find((item) => item.key === step);
export const noteDraft = (step) => `note ${step}`;

async function setProgress(step, status) {
  const item = progressOf(step);
  try {
    await put(`/api/progress/${item.id}`, { status, note: draft(noteDraft(step)) ?? item.note, actor: ACTOR });
    dropDraft(noteDraft(step));
    update({ progress: await get('/api/progress') });
  } catch (failure) {
    update({ failure: new Notice('Not saved.', failure.message) });
  }
}

// The switch shows every covered value; each use of it is an event.
export function setTeacher(on) {
  localStorage.setItem('teacher', on ? 'on' : 'off');
  update({ teacher: on });
  recordTeacher(on);
}

// Load the page again with the record of another learner. The stored data of the earlier learner in this tab is
// dropped, and the switch is turned off, because no event of this learner says that it is on.
export function forget() {
  clearTimeout(timer);
  [sent, pending] = [{}, {}];
  for (const name of ['drafts', 'unsaved-view']) sessionStorage.removeItem(name);
  localStorage.setItem('teacher', 'off');
  startOver();
}

// Load the page again, without the address of the position that it shows.
function startOver() {
  history.replaceState(null, '', location.pathname + location.search);
  location.reload();
}

// Hide the failure that is shown, until another one.
export const dismiss = () => update({ failure: null, dismissed: state.last?.operation_id ?? null });
