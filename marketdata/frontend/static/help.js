// The help dialog: the keys, and on a touch screen the gestures.

import { $, button, element, PHONE } from './dom.js';

// [keys, effect]
const KEYS = [
  [['A', '…', 'Z'], 'Search a symbol by its letters'],
  [['1', '…', '9'], 'Choose an interval: 5, 1h, 1d; a plain number is minutes'],
  [[','], 'Choose an interval by its letter: D, W, M'],
  [['←', '→'], 'Move the chart'],
  [['Shift+←', 'Shift+→'], 'Read the previous or the next candle'],
  [['+', '−'], 'Zoom'],
  [['End'], 'The newest candles'],
  [['Alt+R'], 'The newest candles at their first size'],
  [['Alt+L'], 'Logarithmic prices'],
  [['Alt+T'], 'List of trades'],
  [['Alt+C'], 'Save the candles in sight as CSV'],
  [['Alt+S'], 'Save the chart as a picture'],
  [['Esc'], 'Close what is open'],
  [['?'], 'This table'],
];

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
  if (!PHONE.matches) parts.push(['Keyboard', KEYS.map(([keys, effect]) => row(keys.flatMap((each, at) => [at ? ' ' : '', chord(each)]), effect))]);
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
