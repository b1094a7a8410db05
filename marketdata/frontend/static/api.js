// Requests to the data API through the frontend, which adds the token.

import { state, update } from './state.js';

export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.code = problem.code || 'unknown';
    this.status = status;
  }
}

// Neither the frontend nor the API behind it answers.
export class Offline extends Error {}

// The frontend does not know this browser's login, or knows it no longer.
export class LoggedOut extends Error {}

const UNREACHABLE = new Set([502, 503, 504]);

let loggedInAt = 0;
export const noteLogin = () => { loggedInAt = performance.now(); };

// {content, tag}; content is null when `tag` is still the current one.
export async function request(path, { tag = null, signal } = {}) {
  const startedAt = performance.now();
  const sentAt = Date.now();
  let response;
  try {
    // Absolute: an address with a user's name and password in it cannot be the base of a request.
    response = await fetch(`${location.origin}${path}`, { signal, cache: tag ? 'no-store' : 'no-cache', headers: { Accept: 'application/json', 'X-Login-Prompt': 'none', ...(tag && { 'If-None-Match': tag }) } });
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
    throw new Offline('The service does not answer.');
  }
  noteClock(response.headers.get('Date'), sentAt);
  // One that was sent before a new login had the old one.
  if (response.status === 401 && startedAt < loggedInAt) return request(path, { tag, signal });
  if (response.status === 401) throw new LoggedOut('The login is needed again.');
  if (response.status === 304) return { content: null, tag };
  const isJson = (response.headers.get('Content-Type') || '').includes('json');
  const content = isJson ? await response.json() : {};
  if (UNREACHABLE.has(response.status)) throw new Offline(content.detail || 'The data API does not answer.');
  if (!response.ok) throw new Refusal(content, response.status);
  return { content, tag: response.headers.get('ETag') };
}

// The service's clock, which a Date header has to the second: the offset is moved as far as it contradicts. The as_of of a
// body does not serve: the browser may have kept the body.
function noteClock(date, sentAt) {
  const time = Date.parse(date ?? '');
  if (Number.isNaN(time)) return;
  const [least, most] = [time - Date.now(), time + 1000 - sentAt];
  update({ clockOffset: Math.min(Math.max(state.clockOffset, least), most) });
}

export const get = async (path, options) => (await request(path, options)).content;

const query = (parameters) => new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null)).toString();

export const chartPath = (parameters) => `/api/v1/chart?${query(parameters)}`;
export const symbols = () => get('/api/v1/symbols').then((found) => found.symbols);
export const coverage = (symbol) => get(`/api/v1/coverage?${query({ symbol })}`).then((found) => found.ranges);
export const ticks = (symbol, limit, signal) => get(`/api/v1/ticks?${query({ symbol, limit })}`, { signal }).then((found) => found.ticks);
export const whoami = () => get('/whoami');
