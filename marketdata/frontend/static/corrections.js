// The corrections of the shown candles: a button that counts them, and a dialog that lists what changed.

import { $, button, element, say } from './dom.js';
import * as feed from './feed.js';
import { moment } from './legend.js';
import { now, state } from './state.js';
import * as zones from './time_zones.js';

const FIELDS = ['o', 'h', 'l', 'c', 'v', 'n'];
const REMOVED = 'removed: it has no trades any more';

let onCandle = () => {};

// Calls `onCandle(time)` for a chosen candle.
export function start(given) {
  ({ onCandle } = given);
  $('corrections-open').onclick = open;
  feed.onCandles(drawButton);
}

function drawButton() {
  $('corrections-open').hidden = !feed.corrections().length;
  $('corrections-open').textContent = title();
}

const clock = (time, part) => zones.short(time, state.zone, zones.parts(now(), state.zone).date, part);

// `3 corrections since 19:02`
function title() {
  const found = feed.corrections();
  return found.length ? `${found.length} correction${found.length === 1 ? '' : 's'} since ${clock(found[0].at, 'minute')}` : '';
}

export function open() {
  const found = feed.corrections();
  if (!found.length) return say('No candle was corrected while it was shown here.');
  const dialog = $('corrections');
  dialog.replaceChildren(
    element('div', { class: 'panel-head' }, element('h2', { id: 'corrections-title' }, title()), element('span', { class: 'space' }),
      button('×', () => dialog.close(), { class: 'icon', 'aria-label': 'Close' })),
    element('table', {}, element('thead', {}, element('tr', {}, ...['Candle', 'Before → after', 'Corrected'].map((each) => element('th', { scope: 'col' }, each)))),
      element('tbody', {}, ...found.toReversed().map(row))),
  );
  dialog.showModal();
  return dialog.querySelector('tbody button').focus();
}

function row({ t, before, after, at }) {
  const show = () => {
    $('corrections').close();
    onCandle(t);
  };
  return element('tr', { onclick: show }, element('td', {}, button(moment(t, feed.candles()), null, { class: 'link' })),
    element('td', {}, ...changes(before, after).map((each) => element('div', {}, each))), element('td', {}, clock(at, 'second')));
}

// The changed fields as text, like `H 2511 → 2509.9`.
function changes(before, after) {
  if (!after) return [REMOVED];
  return FIELDS.filter((name) => before[name] !== after[name]).map((name) => `${name === 'n' ? name : name.toUpperCase()} ${before[name]} → ${after[name]}`);
}
