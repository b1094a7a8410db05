// The toolbar, where the user chooses the view. On a telephone, the same controls are in a sheet at the bottom.

import { PANELS, TYPES } from './address.js';
import * as chart from './chart.js';
import { titled } from './commands.js';
import { $, button, element, NARROW, PHONE } from './dom.js';
import * as feed from './feed.js';
import { inWords, WIDTHS } from './intervals.js';
import * as menus from './menus.js';
import * as pickers from './pickers.js';
import { remember, state, subscribe } from './state.js';
import * as symbols from './symbols.js';
import * as zones from './time_zones.js';

const QUICK = ['1s', '1m', '5m', '15m', '1h', '4h', '1d', '1w'];
// The command of each button.
const BUTTONS = {
  zone: 'zone', connected: 'connected', log: 'log', percent: 'percent', invert: 'invert', 'watchlist-toggle': 'watchlist', 'trades-toggle': 'trades', go: 'date',
  'copy-link': 'link', 'copy-image': 'image', csv: 'csv', png: 'png', 'full-screen': 'full',
};
const DARK = matchMedia('(prefers-color-scheme: dark)');

// `actions` are the functions of the commands, by name.
export function start({ onSymbol, onInterval, onZone, onType, actions }) {
  $('intervals').replaceChildren(...QUICK.map((each) => button(each, () => onInterval(each), { title: inWords(each), 'data-interval': each })));
  $('more-intervals').onchange = (event) => onInterval(event.target.value);
  $('type').onchange = (event) => onType(event.target.value);
  $('newest').onclick = actions.newest;
  for (const [id, name] of Object.entries(BUTTONS)) {
    $(id).onclick = actions[name];
    $(id).title = titled(name);
  }
  $('more').title = titled('more');
  $('type').title = titled('type');
  menus.connect('more', 'more-menu');
  $('symbol').onclick = () => pickers.openSymbols();
  $('interval').onclick = () => openSheet(true);
  $('open-sheet').onclick = () => openSheet($('open-sheet').getAttribute('aria-expanded') !== 'true');
  $('close-sheet').onclick = () => openSheet(false);
  for (const id of ['controls', 'below']) $(id).addEventListener('click', afterClick);
  $('more-menu').addEventListener('click', ({ target }) => { if (target.closest('button')) $('more-menu').hidePopover(); });
  $('controls').addEventListener('change', () => { if (isSheetOpen()) openSheet(false); });
  document.addEventListener('pointerdown', ({ target }) => { if (isSheetOpen() && !target.closest('header')) openSheet(false); });
  $('theme').value = document.documentElement.dataset.theme ?? 'system';
  $('theme').onchange = (event) => setTheme(event.target.value);
  DARK.addEventListener('change', repaint);
  for (const each of [PHONE, NARROW]) each.addEventListener('change', place);
  place();
  pickers.start({ onSymbol, onInterval, onZone });
  subscribe((changed) => { if (['symbol', 'interval', 'zone', 'type', 'scale', 'isInverted', 'isConnected', 'panels', 'user', 'auth'].some((name) => changed.has(name))) draw(); });
  draw();
}

function draw() {
  $('symbol-name').textContent = state.symbol ?? 'Symbol';
  $('symbol-name').title = state.symbol ?? '';
  $('demo').hidden = !symbols.isDemo(state.symbol);
  document.title = state.symbol ? `${state.symbol} ${state.interval}` : 'Chart';
  $('interval').textContent = state.interval;
  for (const each of $('intervals').children) each.setAttribute('aria-pressed', String(each.dataset.interval === state.interval));
  const isQuick = QUICK.includes(state.interval) && (PHONE.matches || !NARROW.matches); // else there are no buttons
  $('more-intervals').replaceChildren(element('option', { hidden: true, disabled: true, selected: isQuick }, 'more'),
    ...[...WIDTHS.keys()].map((each) => element('option', { value: each, selected: !isQuick && each === state.interval }, each)));
  $('more-intervals').classList.toggle('on', !isQuick);
  $('zone').textContent = zones.label(state.zone);
  $('zone').setAttribute('aria-label', `Time zone: ${zones.label(state.zone)}`);
  $('type').replaceChildren(...TYPES.map((each) => element('option', { value: each, selected: each === state.type }, each)));
  const pressed = { log: state.scale === 'log', percent: state.scale === 'percent', invert: state.isInverted };
  for (const panel of PANELS) pressed[`${panel}-toggle`] = state.panels.includes(panel);
  for (const [id, isPressed] of Object.entries(pressed)) $(id).setAttribute('aria-pressed', String(isPressed));
  $('connected').checked = state.isConnected;
  $('user').textContent = state.user ?? '';
  $('logout').hidden = !state.auth || state.auth === 'none';
}

// On a telephone, moves the row below the chart, the user and the logout into the sheet. In a narrow window, moves the help,
// the user and the logout into the menu.
function place() {
  if (PHONE.matches) $('controls').append($('below'), $('who'));
  else {
    if (NARROW.matches) $('more-menu').append($('help'), $('who'));
    else $('live').after($('who'));
    document.querySelector('main').after($('below'));
  }
  if (!NARROW.matches || PHONE.matches) $('close-sheet').before($('help'));
  openSheet(false);
  draw();
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
  if (isSheetOpen() && chosen.id !== 'go') openSheet(false); // the field of a date is in the sheet
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

