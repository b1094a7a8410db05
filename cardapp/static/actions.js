// Everything that a person can do on the page, whether by a key or a button. Each action asks the service and updates
// the state; the views follow.

import { get, Notice, post, put, Refusal } from './api.js';
import { Catalog, state, stepOf, update } from './state.js';

const ACTOR = 'page';
const FIELDS = ['task_id', 'block_id', 'phase_id', 'step_id'];

export async function load() {
  const [all, catalog, keyboard, progress] = await Promise.all([
    get('/api/state'), get('/api/navigation/catalog'), get('/api/keyboard'), get('/api/progress'),
  ]);
  update({
    identity: all.identity, session: all.session, navigation: all.navigation, viewer: all.viewer,
    control: all.control, last: all.checkpoint.last, catalog: new Catalog(catalog), keyboard, progress,
  });
  const unsaved = sessionStorage.getItem('unsaved-view');
  if (unsaved) view(JSON.parse(unsaved));
  sessionStorage.removeItem('unsaved-view');
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
  // Shown at once; the service's answer confirms it.
  show({ ...state.navigation, key, position: { ...state.navigation.position, focus_level: item.level } });
  await settle(() => put('/api/navigation/current', body), before);
}

export const move = (delta, level) => settle(() => post('/api/navigation/move', { delta, actor: ACTOR, ...(level && { level }) }));

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

let moving = Promise.resolve(); // until the service has the position; a sync or the next move waits for it

function settle(request, before = state.navigation) {
  moving = moving.then(() => take(request, before));
  return moving;
}

async function take(request, before) {
  try {
    const navigation = await request();
    if (navigation.revision >= state.navigation.revision) show(navigation); // answers may overtake each other
  } catch (failure) {
    if (state.navigation.revision === before.revision) show(before);
    update({ failure: new Notice('Not moved.', failure.message) });
  }
}

// Take a position over, and turn to its page.
export function show(navigation) {
  update({ navigation });
  const page = state.catalog.item(navigation.key)?.page_index ?? 0;
  if (page !== state.viewer.scroll.page_index) view({ scroll: { page_index: page, sheet_scroll_top: 0, x: 0, y: 0 } });
}

// -- sync ----------------------------------------------------------------------------------------------------------

export async function sync() {
  if (state.syncing) return;
  update({ syncing: true, failure: null });
  await moving;
  try {
    const last = await post('/api/navigation/sync', { actor: ACTOR });
    reveal(stepOf(last.snapshot_ref));
    update({ last });
  } catch (failure) {
    update({ failure });
    refresh();
  } finally {
    update({ syncing: false });
  }
}

// End the running replay, whoever began it; its request then fails with `cancelled_by_request`.
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
    update({ failure: null });
  } catch (failure) {
    update({ failure });
  }
  refresh();
}

export async function redraw(size) {
  try {
    await post('/api/editor/redraw', { actor: ACTOR, ...size });
  } catch (failure) {
    update({ failure });
  }
}

// What a finished replay changes besides the control state, which comes by itself and would be overtaken here.
export async function refresh() {
  const [progress, session] = await Promise.all([get('/api/progress'), get('/api/state').then((all) => all.session)]).catch(() => []);
  if (progress) update({ progress, session });
}

// -- the view ------------------------------------------------------------------------------------------------------

let pending = {};
let timer = 0;

// Change a part of the viewer state here at once, and on the service a moment later (flags without delay).
export function view(patch) {
  update({ viewer: merged(state.viewer, patch) });
  pending = merged(pending, patch);
  clearTimeout(timer);
  const isFlag = 'viewer' in patch;
  timer = setTimeout(() => save(), isFlag ? 0 : 250);
}

// What is not saved when the page goes is sent once more by the next load, which may be faster than this request.
export function leave() {
  if (!Object.keys(pending).length) return;
  sessionStorage.setItem('unsaved-view', JSON.stringify(pending));
  save({ keepalive: true });
}

export async function save(options) {
  clearTimeout(timer);
  if (!Object.keys(pending).length) return;
  const patch = pending;
  pending = {};
  try {
    const viewer = await put('/api/viewer/state', { ...patch, actor: ACTOR }, options);
    update({ viewer: { ...state.viewer, revision: viewer.revision, viewer: viewer.viewer } });
  } catch (failure) {
    if (failure instanceof Refusal) update({ failure: new Notice('View not saved.', failure.message) });
    else pending = merged(patch, pending); // until the service answers again
  }
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
  const { control } = state.viewer.viewer.editor;
  view({ viewer: { editor: control ? { control: false } : { visible: true, sync: true, control: true } } });
}

// -- answers and progress ------------------------------------------------------------------------------------------

export function reveal(step) {
  if (!step || state.revealed.has(step)) return;
  update({ revealed: new Set(state.revealed).add(step) });
}

export async function answer(step, text) {
  update({ answers: new Map(state.answers).set(step, text) });
  reveal(step);
  await record('x-answer', step, text);
}

export async function showValues(step) {
  reveal(step);
  await record('x-revealed', step, 'The values were shown without an answer.');
}

let unsent = [];

// Without the service an event waits until it answers again.
async function record(kind, key, text) {
  try {
    await post('/api/events', { kind, key, text, actor: ACTOR });
  } catch (failure) {
    if (failure instanceof Refusal) update({ failure: new Notice('Not recorded.', failure.message) });
    else unsent.push([kind, key, text]);
  }
}

// The service answers again: what it missed.
export function resend() {
  const events = unsent;
  unsent = [];
  for (const event of events) record(...event);
  save();
  refresh();
}

export async function approve(step, note) {
  const item = state.progress.items.find((each) => each.key === step);
  const status = item.status === 'approved' ? 'pending' : 'approved';
  try {
    await put(`/api/progress/${item.id}`, { status, note: note ?? item.note, actor: ACTOR });
    update({ progress: await get('/api/progress') });
  } catch (failure) {
    update({ failure: new Notice('Not saved.', failure.message) });
  }
}

export function setTeacher(on) {
  localStorage.setItem('teacher', on ? 'on' : 'off');
  update({ teacher: on });
}

export const dismissFailure = () => update({ failure: null });
