// Shows, below the toolbar of the sheets, why the last action of this page failed or why the last sync of the position
// failed, with the possible next actions as buttons. A failed sync is known to the service, so a reload shows it again.

import { dismiss, openLine, reset, sync } from './actions.js';
import { $, button, codeOf, copyButton, element, fill, sentence } from './dom.js';
import { failedHere, state, subscribe } from './state.js';

const HEADINGS = {
  snapshot_drift: 'The program is not as the card says.', source_drift: 'The code is not the card’s.',
  build_failed: 'The program does not build.', target_exited: 'The program ended before the stop.',
  target_crashed: 'The program crashed before the stop.', stop_not_reached: 'The program did not come to the stop.',
  replay_timeout: 'The program was not at the stop in time.',
};
const MAX_MESSAGES = 20; // of a build; the others are in its output

export function start() {
  subscribe((changed) => {
    if (['failure', 'last', 'dismissed', 'navigation', 'session', 'viewer', 'isMapOpen'].some((name) => changed.has(name))) show();
  });
  show();
}

let shown = ''; // what is shown; an equal failure is not drawn again, because its buttons would lose the focus

function show() {
  const operation = state.failure ? null : failedHere();
  const now = JSON.stringify([state.failure, state.failure?.message, operation && said(operation), state.session.start_command]);
  if (now === shown) return;
  shown = now;
  $('result').hidden = !state.failure && !operation;
  fill($('result'), ...(state.failure ? refusal(state.failure) : operation ? report(operation) : []));
}

const said = ({ code, reason: why, observed, failure }) => [code, why, observed?.checks, failure];
const reason = (heading, text) => element('p', {}, element('b', {}, heading), ' ', text ? sentence(text) : null);
const actions = (...buttons) => element('div', { class: 'actions' }, ...buttons);

// -- an action that the service refused, or that could not be sent -----------------------------------------------------

function refusal(failure) {
  return [reason(failure.heading ?? 'Not synced.', failure.message), actions(...remedies(failure))];
}

function remedies({ code, status }) {
  if (code === 'notice') return [button('Dismiss', dismiss)];
  if (code === 'offline') return [button('Try again', sync)];
  if (status === 503) return [copyButton(state.session.start_command), button('Try again', sync)];
  return [button('Retry', sync), button('Reset', reset)];
}

// -- a sync that failed ------------------------------------------------------------------------------------------------

function report(operation) {
  const { code, observed, failure } = operation;
  const again = code === 'cancelled_by_request' ? [button('Sync again', sync)] : [button('Retry', sync), button('Reset', reset)];
  return [
    failure?.build ? command(failure.build) : reason(HEADINGS[code] ?? 'Not synced.', operation.reason),
    code === 'snapshot_drift' ? values(observed.checks) : null,
    failure?.source ? excerpt(failure.source) : null,
    ...(failure?.build ? build(failure.build) : []),
    failure?.program ? printed(failure.program.printed) : null,
    actions(...again, ...places(operation).map(({ file, line }) => lineButton(file, line)), button('Dismiss', dismiss)),
  ];
}

// The line to look at: of the stop, of the code that differs, or of the crash.
function places({ code, observed, failure }) {
  const place = failure?.source ?? failure?.program?.place ?? (code === 'snapshot_drift' ? observed : null);
  return place?.file && place.line ? [place] : [];
}

function lineButton(file, line) {
  return button(`Open line ${line}`, () => openLine(file, line), { title: `${file}:${line}` });
}

const values = (checks) => table(['Name', 'Expected', 'Seen'],
  checks.filter(({ match }) => match === false).map(({ name, expected, actual }) => [name, expected, actual ?? 'unreadable']));

const excerpt = ({ file, line, expected, found }) => table(['Line', 'The card', 'The file'],
  [[`${file}:${line}`, expected, found === null ? 'no such line' : found.trim()]]);

function table(heads, rows) {
  const head = element('tr', {}, ...heads.map((text) => element('th', { scope: 'col' }, text)));
  const body = rows.map(([name, ...cells]) => element('tr', { class: 'different' },
    element('th', { scope: 'row' }, codeOf(name)),
    ...cells.map((text) => element('td', {}, codeOf(String(text))))));
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...body));
}

const command = (build) => element('p', {}, element('b', {}, HEADINGS.build_failed), ' ', element('code', {}, build.command), ' failed.');

function build({ directory, output, messages }) {
  const errors = messages.filter(({ kind }) => kind === 'error');
  const listed = (errors.length ? errors : messages).slice(0, MAX_MESSAGES);
  const rows = listed.map(({ file, line, text }) => element('li', {},
    line ? lineButton(file.startsWith('/') ? file : `${directory}/${file}`, line) : null, ' ',
    element('code', {}, `${file}: ${text}`)));
  const all = element('details', { open: !rows.length }, element('summary', {}, 'All that the build printed'), lines(output));
  return [rows.length ? element('ul', { class: 'messages' }, ...rows) : null, output.length ? all : null];
}

const lines = (texts) => element('pre', { tabindex: 0 }, texts.join('\n'));
const printed = (texts) => (texts.length ? element('div', {}, element('p', {}, 'It printed last:'), lines(texts)) : null);
