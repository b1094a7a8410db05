// Requests to the service. When the service refuses a request, the function throws a Refusal with the code and the detail of
// the problem (RFC 9457).

export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.code = problem.code || 'unknown';
    this.status = status;
    this.problem = problem;
  }
}

export class Offline extends Error {
  constructor() {
    super('The service does not answer. It may be restarting.');
    this.code = 'offline';
  }
}

// A failure of any action other than a sync: the heading and the reason to show.
export class Notice extends Error {
  constructor(heading, message) {
    super(message);
    this.heading = heading;
    this.code = 'notice';
  }
}

async function request(method, path, body, options = {}) {
  const init = { method, headers: { Accept: 'application/json' }, ...options };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Offline();
  }
  const kind = response.headers.get('Content-Type') || '';
  const content = kind.includes('json') ? await response.json() : await response.text();
  if (!response.ok) throw new Refusal(typeof content === 'object' ? content : {}, response.status);
  return content;
}

export const get = (path) => request('GET', path);
export const put = (path, body, options) => request('PUT', path, body, options);
export const post = (path, body = {}) => request('POST', path, body);
export const remove = (path) => request('DELETE', path);

// Send the bytes of a picture. The service finds out of which type it is.
export const upload = (path, file) => request('POST', path, undefined, {
  body: file, headers: { Accept: 'application/json', 'Content-Type': 'application/octet-stream' },
});
