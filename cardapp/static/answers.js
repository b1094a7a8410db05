// The learner's input about the stops: predictions, answers, opened hints and judgements. Each one is an event of the
// service, which judges the predictions. GET /api/answers returns the recorded input of each stop.

import { get, Notice, post, Refusal } from './api.js';
import { draft, dropDraft, setDraft, state, update } from './state.js';

const ACTOR = 'page';
const NOTHING = {
  answer: null, predictions: [], latest: [], by: null, tries: 0, looked_first: false, revealed: false, hints: 0, self: null,
  proved_at: null, right_first: null,
};

export const recordOf = (stop) => state.answers.get(stop) ?? NOTHING;
export const askedAt = (stop) => state.catalog.item(stop).ask;

// The names of the drafts: texts that were typed for a stop and are not sent yet.
export const answerDraft = (stop) => `answer ${stop}`;
export const predictionDraft = (stop, expression) => `prediction ${stop} ${expression}`;

// The learner's last prediction for an expression.
export const saidOf = (stop, expression) => recordOf(stop).latest.find((each) => each.expression === expression)?.said ?? null;

export const LEFT_EMPTY = 'left empty'; // in place of a value that was asked and not predicted

// The asked expressions without a typed or predicted value.
export const emptyAt = (stop) => askedAt(stop).filter((expression) => !(draft(predictionDraft(stop, expression)) ?? saidOf(stop, expression) ?? '').trim());

// Whether fields are shown for another prediction: the learner has emptied or edited them since.
export const isAskingAgain = (stop) => isKnown(stop) && askedAt(stop).some((expression) => draft(predictionDraft(stop, expression)) !== undefined);

const waiting = new Set(); // stops at which this tab recorded something after their last proof

// Whether there is new input and the program has not run to the stop since, or the values are not compared yet.
export const isWaiting = (stop) => waiting.has(stop) || isUnjudged(stop);

export function isUnjudged(stop) {
  const { tries, by } = recordOf(stop);
  return !waiting.has(stop) && tries > 0 && by === null;
}

// Whether the learner has the values of the stop: from the program, or from the card if no session runs.
export function isKnown(stop) {
  const { proved_at: proved, by, answer, revealed } = recordOf(stop);
  return Boolean(proved || by === 'card' || (!state.session.available && (answer || revealed)));
}

// Whether the values of the stop are uncovered. Above the steps nothing is covered.
export const isUncovered = (stop) => state.teacher || !stop || recordOf(stop).revealed || isKnown(stop);

// -- reading -------------------------------------------------------------------------------------------------------

// Read the answers of every stop, or of one stop.
export async function readAnswers(stop = null) {
  await recorded();
  try {
    const { items } = await get(`/api/answers${stop ? `?key=${encodeURIComponent(stop)}` : ''}`);
    update({ answers: new Map([...state.answers, ...items.map((item) => [item.key, item])]) });
  } catch (failure) {
    update({ failure: new Notice('Earlier answers not read.', failure.message) });
  }
}

// Take over the last finished operation. If it is ready, the values of its stop are shown, and its predictions are
// judged.
export function takeLast(last) {
  const isReady = last?.state === 'ready';
  const isNew = last?.operation_id !== state.last?.operation_id;
  update({ last, ...(isReady && { failure: null }) });
  if (!isReady || !isNew) return;
  waiting.delete(last.snapshot_ref);
  change(last.snapshot_ref, { revealed: true, proved_at: last.finished_at });
  readAnswers(last.snapshot_ref);
}

// -- saying --------------------------------------------------------------------------------------------------------

// Show a change at once; the service's answer confirms it.
function change(stop, parts) {
  update({ answers: new Map(state.answers).set(stop, { ...recordOf(stop), ...parts }) });
}

// The input that was typed for a stop and differs from the recorded input: {answer, values}; null if there is nothing
// new. Another prediction is new whatever it is.
export function typed(stop) {
  const answer = draft(answerDraft(stop))?.trim();
  const values = {};
  const isAgain = isAskingAgain(stop);
  let isNew = isAgain;
  for (const expression of askedAt(stop)) {
    const said = saidOf(stop, expression);
    const text = draft(predictionDraft(stop, expression)) ?? said ?? '';
    if (text.trim() || isAgain) values[expression] = text;
    isNew ||= text.trim() !== '' && text !== said;
  }
  return { answer: answer && answer !== recordOf(stop).answer ? answer : null, values: isNew ? values : null };
}

// Send the input that was typed for a stop. Returns whether there was any.
export function predict(stop) {
  const { answer, values } = typed(stop);
  dropDraft(answerDraft(stop));
  for (const expression of askedAt(stop)) dropDraft(predictionDraft(stop, expression));
  if (!values && !answer) return false;
  if (values) record('x-prediction', stop, { data: { values } });
  if (answer) record('x-answer', stop, { text: answer });
  if (!state.session.available && !values && askedAt(stop).length) showValues(stop); // an answer in words uncovers them
  if (state.session.available) waiting.add(stop);
  else readAnswers(stop); // the card has judged
  const latest = values && askedAt(stop).map((expression) => unjudgedRow(expression, values[expression]?.trim() ? values[expression] : null));
  change(stop, { ...(answer && { answer }), ...(values && { latest, by: null, tries: recordOf(stop).tries + 1 }) });
  return true;
}

// A predicted value that is not judged yet.
const unjudgedRow = (expression, text) => ({ expression, said: text, seen: null, right: text === null ? false : null, empty: text === null });

// Empty the fields of a stop for another prediction.
export function startAgain(stop) {
  for (const expression of askedAt(stop)) setDraft(predictionDraft(stop, expression), '');
  change(stop, {});
}

export function showValues(stop) {
  change(stop, { revealed: true });
  record('x-revealed', stop, { text: 'The values were shown before the program stopped here.' });
}

export function openHint(stop) {
  const hint = recordOf(stop).hints + 1;
  change(stop, { hints: hint });
  record('x-hint', stop, { data: { hint } });
}

export function judge(stop, self) {
  change(stop, { self });
  record('x-self', stop, { data: { self } });
}

export function recordTeacher(on) {
  record('x-teacher', state.navigation.key, { text: on ? 'on' : 'off' });
}

// -- sending -------------------------------------------------------------------------------------------------------

let unsent = JSON.parse(sessionStorage.getItem('unsent-events') || '[]');
let sending = Promise.resolve();

function setUnsent(events) {
  unsent = events;
  sessionStorage.setItem('unsent-events', JSON.stringify(unsent));
}

// Send an event, after those that were recorded before it.
function record(kind, key, content) {
  sending = sending.then(() => send({ kind, key, actor: ACTOR, ...content }));
}

// If the service does not answer, the event is kept until it answers again.
async function send(event) {
  try {
    await post('/api/events', event);
  } catch (failure) {
    if (failure instanceof Refusal) update({ failure: new Notice('Not recorded.', failure.message) });
    else setUnsent([...unsent, event]);
  }
}

// Resolves when every event was sent.
export const recorded = () => sending;

// Call this when the service answers again. Sends the unsent events in their order.
export function resendEvents() {
  const events = unsent;
  setUnsent([]);
  for (const event of events) sending = sending.then(() => send(event));
}
