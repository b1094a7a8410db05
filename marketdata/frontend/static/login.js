// The login dialog, which opens over the chart when the login has expired.

import * as api from './api.js';
import { $, button, element } from './dom.js';
import { state, subscribe, update } from './state.js';

let onLogin = () => {};

export function start(given) {
  ({ onLogin } = given);
  $('login').addEventListener('cancel', (event) => event.preventDefault());
  subscribe((changed) => { if (changed.has('loggedOut')) draw(); });
}

// Checks whether the login is still valid. A closed WebSocket does not tell why it closed.
export async function check() {
  try {
    const { user, auth } = await api.whoami();
    update({ user, auth });
  } catch (failure) {
    if (failure instanceof api.LoggedOut) update({ loggedOut: true });
  }
}

function draw() {
  const dialog = $('login');
  if (!state.loggedOut) {
    dialog.close();
    return;
  }
  const name = element('input', { id: 'login-name', autocomplete: 'username', required: true, value: state.user ?? '' });
  const password = element('input', { id: 'login-password', type: 'password', autocomplete: 'current-password', required: true });
  const fault = element('p', { class: 'fault', role: 'alert' });
  const submit = element('button', { class: 'primary' }, 'Log in');
  const form = element('form', {
    async onsubmit(event) {
      event.preventDefault();
      submit.disabled = true;
      fault.textContent = await tried(name.value, password.value);
      submit.disabled = false;
      if (!fault.textContent) {
        api.noteLogin();
        update({ loggedOut: false });
      }
      if (state.loggedOut) password.select();
      else onLogin();
    },
  }, element('h2', { id: 'login-title' }, 'Log in again'), element('p', { class: 'quiet' }, 'The login has expired. The chart stays as it is.'),
  element('label', { for: 'login-name' }, 'User'), name, element('label', { for: 'login-password' }, 'Password'), password, fault,
  element('div', { class: 'actions' }, submit, button('Reload the page', () => location.reload())));
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
  (state.user ? password : name).focus();
}

// Tries a name and a password. Resolves to an empty text if they are right, otherwise to a message. The browser keeps the
// credentials of this request and sends them with all later requests.
function tried(name, password) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open('GET', '/whoami', true, name, password);
    request.timeout = 15_000; // ms
    request.onload = () => {
      if (request.status === 200) return resolve('');
      if (request.status === 401) return resolve('Wrong user name or password.');
      if (request.status === 429) return resolve(`Too many tries. Wait ${request.getResponseHeader('Retry-After') ?? 'some'} s.`);
      return resolve('The service cannot check the login now.');
    };
    request.onerror = request.ontimeout = () => resolve('The service does not answer.');
    request.send();
  });
}
