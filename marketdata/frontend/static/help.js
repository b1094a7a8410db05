// The help dialog: the keys, and on a touch screen the gestures.

import { COMMANDS } from './commands.js';
import { $, button, element, PHONE } from './dom.js';

// [gesture, effect]
const TOUCHES = [
  ['Drag', 'Move the chart'],
  ['Pinch', 'Zoom'],
  ['Press long, then drag', 'Read the candles one by one'],
  ['Tap', 'Stop reading the candles'],
  ['Drag the prices', 'Stretch them'],
  ['Tap the prices twice', 'Fit them to the candles again'],
  ['Tap the symbol', 'Search a symbol'],
  ['Tap the interval or ⋯', 'Interval, time zone, trades, export'],
];

const TOUCH = matchMedia('(pointer: coarse)');

export function toggle() {
  const dialog = $('keyboard');
  if (dialog.open) return dialog.close();
  const parts = [];
  if (PHONE.matches || TOUCH.matches) parts.push(['Touch', TOUCHES.map(([touch, effect]) => row([touch], effect))]);
  if (!PHONE.matches) parts.push(['Keyboard', Object.values(COMMANDS).map(({ keys, about }) => row(keys.flatMap((each, at) => [at ? ' ' : '', chord(each)]), about))]);
  const close = button('×', () => dialog.close(), { class: 'icon', 'aria-label': 'Close' });
  dialog.setAttribute('aria-label', parts.map(([title]) => title).join(' and '));
  dialog.replaceChildren(...parts.flatMap(([title, rows], at) => [
    element('div', { class: 'panel-head' }, element('h2', {}, title), element('span', { class: 'space' }), at ? null : close),
    element('table', {}, element('tbody', {}, ...rows)),
  ]));
  return dialog.showModal();
}

const row = (cells, effect) => element('tr', {}, element('td', {}, ...cells), element('td', {}, effect));

function chord(keys) {
  if (keys === '…') return keys;
  const parts = keys.length > 1 ? keys.split('+') : [keys];
  return element('span', {}, ...parts.flatMap((part, at) => [at ? '+' : '', element('kbd', {}, part)]));
}
