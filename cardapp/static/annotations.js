// Strategies and annotations: reads them, and sends the requests that change them. Every change is shown when the
// control state reports it, like the changes of other clients.

import { get, Notice, post, remove } from './api.js';
import { state, subscribe, update } from './state.js';

const ACTOR = 'page';
let readAt = -1; // the revision of the last answers

export function start() {
  subscribe((changed) => {
    if (changed.has('control') && state.control.explanation_revision !== readAt) read();
  });
  read();
}

async function read() {
  readAt = state.control.explanation_revision;
  await attempt('Annotations not read.', async () => {
    const [{ annotations }, { strategies }] = await Promise.all([get('/api/annotations'), get('/api/strategies')]);
    const chosen = annotations.some(({ id }) => id === state.chosen) ? state.chosen : null;
    update({ annotations, strategies, chosen });
  });
}

// The answer of `request`; undefined if it failed, which is shown under `heading`.
async function attempt(heading, request) {
  try {
    const answer = await request();
    if (state.failure?.heading === heading) update({ failure: null });
    return answer;
  } catch (failure) {
    update({ failure: new Notice(heading, failure.message) });
  }
}

const changed = (heading, request) => attempt(heading, async () => {
  const answer = await request();
  await read();
  return answer;
});

// -- annotations ---------------------------------------------------------------------------------------------------

export async function addAnnotation(record) {
  const added = await changed('Not drawn.', () => post('/api/annotations', { ...record, actor: ACTOR }));
  if (added) update({ chosen: added.id });
}

export const choose = (id) => update({ chosen: id });

export const removeAnnotation = (id) => changed('Not removed.', () => remove(`/api/annotations/${id}?actor=${ACTOR}`));

export const toggleAnnotation = (id) => changed('Not changed.', () => post(`/api/annotations/${id}/toggle`, { actor: ACTOR }));

export const toggleLayer = () => changed('Not changed.', () => post('/api/annotations/toggle', { actor: ACTOR }));

// -- strategies ----------------------------------------------------------------------------------------------------

export const addStrategy = (record) => changed('Strategy not added.', () => post('/api/strategies', { ...record, actor: ACTOR }));

export const removeStrategy = (id) => changed('Not removed.', () => remove(`/api/strategies/${id}?actor=${ACTOR}`));

export const runStrategy = (id) => attempt('Strategy not run.', () => post(`/api/strategies/${id}/run`, { actor: ACTOR }));
