// The toolbar, where the user chooses the view. On a telephone, the same controls are in a sheet at the bottom.

import * as chart from './chart.js';
import { $, button, element, PHONE } from './dom.js';
import * as exporting from './export.js';
import * as feed from './feed.js';
import { inWords, WIDTHS } from './intervals.js';
import * as pickers from './pickers.js';
import { remember, remembered, state, subscribe } from './state.js';
import * as trades from './trades.js';
import * as zones from './time_zones.js';

const QUICK = ['1s', '1m', '5m', '15m', '1h', '4h', '1d', '1w'];
const DARK = matchMedia('(prefers-color-scheme: dark)');

export function start({ onSymbol, onInterval, onZone, onLog, onNewest }) {
  $('intervals').replaceChildren(...QUICK.map((each) => button(each, () => onInterval(each), { title: inWords(each), 'data-interval': each })));
  $('more-intervals').onchange = (event) => onInterval(event.target.value);
  $('zone').onchange = (event) => onZone(Number(event.target.value));
  $('log').onclick = onLog;
  $('newest').onclick = onNewest;
  $('csv').onclick = exporting.csv;
  $('png').onclick = exporting.png;
  $('symbol').onclick = () => pickers.openSymbols();
  $('interval').onclick = () => openSheet(true);
  $('open-sheet').onclick = () => openSheet($('open-sheet').getAttribute('aria-expanded') !== 'true');
  $('close-sheet').onclick = () => openSheet(false);
  $('trades-toggle').onclick = trades.toggle;
  $('controls').addEventListener('click', afterClick);
  $('controls').addEventListener('change', () => { if (isSheetOpen()) openSheet(false); });
  document.addEventListener('pointerdown', ({ target }) => { if (isSheetOpen() && !target.closest('header')) openSheet(false); });
  $('theme').value = document.documentElement.dataset.theme ?? 'system';
  $('theme').onchange = (event) => setTheme(event.target.value);
  DARK.addEventListener('change', repaint);
  PHONE.addEventListener('change', place);
  place();
  pickers.start({ onSymbol, onInterval });
  subscribe((changed) => { if (['symbol', 'interval', 'zone', 'log', 'user', 'auth'].some((name) => changed.has(name))) draw(); });
  draw();
}

function draw() {
  $('symbol-name').textContent = state.symbol ?? 'Symbol';
  $('demo').hidden = !pickers.isDemo(state.symbol);
  document.title = state.symbol ? `${state.symbol} ${state.interval}` : 'Chart';
  $('interval').textContent = state.interval;
  for (const each of $('intervals').children) each.setAttribute('aria-pressed', String(each.dataset.interval === state.interval));
  const isQuick = QUICK.includes(state.interval);
  $('more-intervals').replaceChildren(element('option', { hidden: true, disabled: true, selected: isQuick }, 'more'),
    ...[...WIDTHS.keys()].map((each) => element('option', { value: each, selected: !isQuick && each === state.interval }, each)));
  $('more-intervals').classList.toggle('on', !isQuick);
  const here = zones.localOffset();
  $('zone').replaceChildren(...zones.offered(state.zone).map((each) => element('option', { value: each, selected: each === state.zone },
    zones.label(each) + (each === here && here ? ' (here)' : ''))));
  $('log').setAttribute('aria-pressed', String(state.log));
  $('user').textContent = state.user ?? '';
  $('logout').hidden = !state.auth || state.auth === 'none';
}

// Moves the user and the logout into the sheet on a telephone.
function place() {
  if (PHONE.matches) $('controls').append($('who'));
  else $('live').after($('who'));
  openSheet(false);
}

export const isSheetOpen = () => PHONE.matches && $('open-sheet').getAttribute('aria-expanded') === 'true';

export function openSheet(isOpen) {
  $('controls').classList.toggle('open', isOpen);
  $('controls').inert = PHONE.matches && !isOpen;
  $('open-sheet').setAttribute('aria-expanded', String(isOpen));
  if (isOpen) $('intervals').firstElementChild.focus();
}

// A choice closes the sheet. A clicked button loses the focus; otherwise the browser would draw a ring around the button at
// the next key.
function afterClick({ target, detail }) {
  const chosen = target.closest('button');
  if (!chosen) return;
  if (detail) chosen.blur();
  if (isSheetOpen()) openSheet(false);
}

function setTheme(chosen) {
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  remember('theme', chosen);
  repaint();
}

function repaint() {
  chart.recolour();
  feed.redraw();
}

export const wanted = () => ({ symbol: remembered('symbol'), interval: remembered('interval'), zone: zones.parsed(remembered('zone') ?? '') });
