// Requests to the data API through the frontend, which adds the token.

import { state, update } from './state.js';

export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.code = problem.code || 'unknown';
    this.status = status;
    this.pointers = (problem.errors ?? []).map(({ pointer }) => pointer);
  }
}

// The frontend, or the API behind it, does not respond.
export class Offline extends Error {}

// The frontend refuses the login of this browser, or the login has expired.
export class LoggedOut extends Error {}

const UNREACHABLE = new Set([502, 503, 504]);

let loggedInAt = 0;
export const noteLogin = () => { loggedInAt = performance.now(); };

// Returns {content, tag}. `content` is null if the given `tag` is still the current entity tag.
export async function request(path, { tag = null, signal } = {}) {
  const startedAt = performance.now();
  const sentAt = Date.now();
  let response;
  try {
    // The URL is absolute, because fetch refuses a relative URL if the page's address has a user name and a password.
    response = await fetch(`${location.origin}${path}`, { signal, cache: tag ? 'no-store' : 'no-cache', headers: { Accept: 'application/json', 'X-Login-Prompt': 'none', ...(tag && { 'If-None-Match': tag }) } });
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
    throw new Offline('The service does not answer.');
  }
  noteClock(response.headers.get('Date'), sentAt);
  // The user has logged in after the request was sent, so it is repeated with the new login.
  if (response.status === 401 && startedAt < loggedInAt) return request(path, { tag, signal });
  if (response.status === 401) throw new LoggedOut('The login is needed again.');
  if (response.status === 304) return { content: null, tag };
  const isJson = (response.headers.get('Content-Type') || '').includes('json');
  const content = isJson ? await response.json() : {};
  if (UNREACHABLE.has(response.status)) throw new Offline(content.detail || 'The data API does not answer.');
  if (!response.ok) throw new Refusal(content, response.status);
  return { content, tag: response.headers.get('ETag') };
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

const query = (parameters) => new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null)).toString();

export const chartPath = (parameters) => `/api/v1/chart?${query(parameters)}`;
export const symbols = () => get('/api/v1/symbols').then((found) => found.symbols);
export const coverage = (symbol) => get(`/api/v1/coverage?${query({ symbol })}`).then((found) => found.ranges);
export const ticks = (parameters, options) => get(`/api/v1/ticks?${query(parameters)}`, options);
export const summary = (parameters, options) => get(`/api/v1/summary?${query(parameters)}`, options);
export const whoami = () => get('/whoami');
