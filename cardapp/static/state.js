// The page's state in one object, and the listeners that are called after a change. Views read the state and never
// change it. Below are the drafts, which this browser tab stores.

export const state = {
  identity: null,
  learner: null, // the name of the learner whose record is shown; null while this page changes the name
  session: { available: false, reason: null },
  catalog: null,
  keyboard: { levels: [], shortcuts: [] },
  navigation: null,
  viewer: null,
  control: null,
  progress: { items: [], summary: {} },
  last: null, // the last finished operation
  isMapOpen: false, // whether the map lies over the worksheet
  annotations: [], // records of GET /api/annotations
  strategies: [], // records of GET /api/strategies
  chosen: null, // the id of the annotation that is selected
  isExplainOpen: false, // whether the list of annotations and strategies is shown; then a click selects an annotation
  program: null, // where the program is after it was moved on; null if that is not known
  failure: null, // why this page's last action failed: a Refusal, Offline or Notice
  restored: null, // the files of the session that this page has just restored
  dismissed: null, // the id of the failed operation that this page no longer shows
  syncing: null, // while this page's sync is not answered: {before}, the id of the operation before it
  answers: new Map(), // stop key -> the learner's answers there, an item of GET /api/answers
  teacher: localStorage.getItem('teacher') === 'on',
  connected: true,
};

const listeners = new Set();

export function subscribe(listener) {
  listeners.add(listener);
}

// Change some parts of the state, then call the listeners with the names of these parts.
export function update(parts) {
  Object.assign(state, parts);
  const changed = new Set(Object.keys(parts));
  for (const listener of listeners) listener(changed);
}

export class Catalog {
  constructor(answer) {
    this.levels = answer.levels;
    this.items = answer.items;
    this.byKey = new Map(answer.items.map((item) => [item.key, item]));
    this.children = new Map();
    for (const item of answer.items) {
      if (item.parent === null) continue;
      const siblings = this.children.get(item.parent);
      if (siblings) siblings.push(item);
      else this.children.set(item.parent, [item]);
    }
    this.pages = answer.items.filter((item) => item.level === 'block');
    this.stops = answer.items.filter((item) => item.level === 'snapshot');
    this.stepCount = answer.counts.step;
    this.steps = new Map(); // key -> the keys of the steps below it; filled by `stepsBelow`
    this.number = new Map([['', '']]);
    for (const [parent, siblings] of this.children)
      siblings.forEach((item, at) => this.number.set(item.key, `${this.number.get(parent) || ''}${parent ? '.' : ''}${at + 1}`));
  }

  item(key) {
    return this.byKey.get(key);
  }

  // The keys of the steps below an item.
  stepsBelow(key) {
    if (!this.steps.has(key)) {
      const below = this.items.filter((item) => item.level === 'step' && (!key || item.key.startsWith(`${key}/`)));
      this.steps.set(key, below.map((item) => item.key));
    }
    return this.steps.get(key);
  }

  // The items from the task down to the item `key`.
  trail(key) {
    const parts = key ? key.split('/') : [];
    return parts.map((_, at) => this.byKey.get(parts.slice(0, at + 1).join('/')));
  }
}

// The key in an address like `#/task/…` or `#task/…`. If the percent-encoding is invalid, the text itself.
export function keyOf(address) {
  const text = address.replace(/^#\/?/, '');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The key of the step that contains the position; null above the steps.
export function stepOf(key) {
  const parts = key.split('/');
  return parts.length >= 4 ? parts.slice(0, 4).join('/') : null;
}

// Whether the position is not visible, because another page or the map is shown. Then no action may change anything at
// the position.
export function isAway() {
  const { key } = state.navigation;
  if (state.isMapOpen) return true;
  const page = state.catalog.pages[state.viewer.scroll.page_index].key;
  return key !== '' && !`${key}/`.startsWith(`${page}/`) && !page.startsWith(`${key}/`);
}

// The last operation, if it failed, belongs to the position, and was not dismissed; else null.
export function failedHere() {
  const { last, navigation: { key } } = state;
  if (!last || last.state === 'ready' || last.operation_id === state.dismissed || isAway()) return null;
  const isHere = key && (stepOf(key) === stepOf(last.snapshot_ref) || last.snapshot_ref.startsWith(`${key}/`));
  return isHere ? last : null;
}

// The stop that a position means: the position itself, or the first stop of its step; null above the steps. A stop is a
// snapshot: the place at which the program is stopped.
export function stopOf(key) {
  return stepOf(key) ? state.catalog.item(key)?.first_snapshot ?? null : null;
}

export const currentStop = () => stopOf(state.navigation.key);

// The stops of the step that contains the stop.
export const stopsBeside = (stop) => state.catalog.children.get(stepOf(stop));

// -- drafts ---------------------------------------------------------------------------------------------------------
// Texts that were typed but not sent. A reload, another page of the worksheet or a change of the card's files keeps them.

const drafts = new Map(JSON.parse(sessionStorage.getItem('drafts') || '[]')); // name -> text

const storeDrafts = () => sessionStorage.setItem('drafts', JSON.stringify([...drafts]));

// Fill a field with the draft `name`, if there is one, and keep the typed text as this draft.
export function keepDraft(field, name) {
  if (drafts.has(name)) field.value = drafts.get(name);
  field.addEventListener('input', () => setDraft(name, field.value));
}

export function setDraft(name, text) {
  drafts.set(name, text);
  storeDrafts();
}

export const draft = (name) => drafts.get(name);

export function dropDraft(name) {
  drafts.delete(name);
  storeDrafts();
}
