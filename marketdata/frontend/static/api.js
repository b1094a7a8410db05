// Requests to the data API through the frontend, which adds the token.

import { state, update } from './state.js';

const DEADLINE_MS = 15_000; // of one try
const WAITS_MS = [500, 1000, 2000, 4000, 8000]; // between tries

// Why a request has no result. After a temporary failure, another try may succeed.
class Failure extends Error {
  isTemporary = false;
  retryAfter = 0; // seconds after which the service accepts the next try
}

export class Refusal extends Failure {
  constructor(problem, status) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.code = problem.code || 'unknown';
    this.status = status;
    this.prunedUntil = problem.pruned_until; // of the code `pruned`
    this.pointers = (problem.errors ?? []).map(({ pointer }) => pointer);
    this.isTemporary = status >= 500 || status === 429;
  }
}

// The frontend, or the API behind it, does not respond.
export class Offline extends Failure {
  isTemporary = true;
}

// The frontend refuses the login of this browser, or the login has expired.
export class LoggedOut extends Failure {}

const UNREACHABLE = new Set([502, 503, 504]);

let loggedInAt = 0;
export const noteLogin = () => { loggedInAt = performance.now(); };

// Returns {content, tag}. `content` is null if the given `tag` is still the current entity tag. After a temporary failure the
// request is sent again until it succeeds or `signal` aborts it; `onFailure` gets each failure, and state.retrying counts the
// requests that have failed. With `isOnce`, it is sent once.
export async function request(path, { onFailure = () => {}, isOnce = false, ...options } = {}) {
  let failures = 0;
  try {
    for (;;) {
      try {
        return await (takeEarly(path) ?? tried(path, options));
      } catch (failure) {
        if (!failure.isTemporary || isOnce) throw failure;
        if (!failures) update({ retrying: state.retrying + 1 });
        onFailure(failure);
        await pause(Math.max(WAITS_MS[Math.min(failures, WAITS_MS.length - 1)], failure.retryAfter * 1000), options.signal);
        failures += 1;
      }
    }
  } finally {
    if (failures) update({ retrying: state.retrying - 1 });
  }
}

const early = new Map(); // the requests of early.js that nobody has taken, by path

// Sends a request before the part of the page that needs it is loaded.
export function sendEarly(path) {
  const sending = tried(path);
  sending.catch(() => {});
  early.set(path, sending);
  return sending;
}

function takeEarly(path) {
  const sending = early.get(path);
  early.delete(path);
  return sending;
}

export const dropEarly = () => early.clear();

const pauses = new Set(); // functions that end a pause

// Sends each request that waits for its next try now.
export const retryNow = () => pauses.forEach((end) => end());

// See pruned.js, which few symbols need.
export const above = async (...refused) => (await import('./pruned.js')).above(...refused);

function pause(duration, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      pauses.delete(end);
      resolve();
    };
    const timer = setTimeout(end, duration);
    pauses.add(end);
    signal?.addEventListener('abort', end, { once: true });
  });
}

// Sends a request once. It fails if its response is not complete at its deadline.
async function tried(path, { tag = null, signal = new AbortController().signal } = {}) {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), DEADLINE_MS);
  try {
    return await sent(path, tag, AbortSignal.any([signal, deadline.signal]));
  } catch (failure) {
    if (signal.aborted || failure instanceof Failure) throw failure;
    throw new Offline(deadline.signal.aborted ? `The service has not answered within ${DEADLINE_MS / 1000} seconds.` : 'The service does not answer.');
  } finally {
    clearTimeout(timer);
  }
}

async function sent(path, tag, signal) {
  const startedAt = performance.now();
  const sentAt = Date.now();
  // The URL is absolute, because fetch refuses a relative URL if the page's address has a user name and a password.
  const response = await fetch(`${location.origin}${path}`, { signal, cache: tag ? 'no-store' : 'no-cache', headers: { Accept: 'application/json', 'X-Login-Prompt': 'none', ...(tag && { 'If-None-Match': tag }) } });
  noteClock(response.headers.get('Date'), sentAt);
  // The user has logged in after the request was sent, so it is repeated with the new login.
  if (response.status === 401 && startedAt < loggedInAt) return sent(path, tag, signal);
  if (response.status === 401) throw new LoggedOut('The login is needed again.');
  if (response.status === 304) return { content: null, tag };
  const isJson = (response.headers.get('Content-Type') || '').includes('json');
  const content = isJson ? await response.json() : {};
  if (response.ok) return { content, tag: response.headers.get('ETag') };
  const failure = UNREACHABLE.has(response.status) ? new Offline(content.detail || 'The data API does not answer.') : new Refusal(content, response.status);
  failure.retryAfter = Number(response.headers.get('Retry-After')) || 0;
  throw failure;
}

// Estimates the service's clock from the Date header, which has whole seconds. The header gives a lower and an upper bound
// of the offset; the known offset changes only if it is outside of these. The body's as_of cannot be used, because the body
// may come from the browser's cache.
function noteClock(date, sentAt) {
  const time = Date.parse(date ?? '');
  if (Number.isNaN(time)) return;
  const [lower, upper] = [time - Date.now(), time + 1000 - sentAt];
  update({ clockOffset: Math.min(Math.max(state.clockOffset, lower), upper) });
}

export const get = async (path, options) => (await request(path, options)).content;

// The service takes a small number for seconds, so such a time is sent as text.
const SECONDS_BELOW = 1e11;
const sentValue = (name, value) => (name.endsWith('Time') && value > 0 && value < SECONDS_BELOW ? new Date(value).toISOString() : value);
const query = (parameters) => new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null).map(([name, value]) => [name, sentValue(name, value)])).toString();

export const chartPath = (parameters) => `/api/v1/chart?${query(parameters)}`;
export const SYMBOLS = '/api/v1/symbols';
export const symbols = (options) => get(SYMBOLS, options).then((found) => found.symbols);
export const coverage = (symbol, options) => get(`/api/v1/coverage?${query({ symbol })}`, options).then((found) => found.ranges);
export const ticks = (parameters, options) => get(`/api/v1/ticks?${query(parameters)}`, options);
export const summary = (parameters, options) => get(`/api/v1/summary?${query(parameters)}`, options);
export const whoami = () => get('/whoami', { isOnce: true });
