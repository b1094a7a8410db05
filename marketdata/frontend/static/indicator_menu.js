// The menu of the indicators: which are drawn, with which parameters.

import { titled } from './commands.js';
import { $, button, element } from './dom.js';
import * as indicators from './indicators.js';
import * as menus from './menus.js';
import { state, subscribe } from './state.js';

let change = null;

// Calls `onChange` with the chosen indicators.
export function start(onChange) {
  change = onChange;
  menus.connect('indicators', 'indicators-menu');
  $('indicators').title = titled('indicators');
  subscribe((changed) => { if (changed.has('indicators')) draw(); });
  draw();
}

// Draws a row for each chosen indicator and for each other one. Rows that already show the choice stay, with the focus in them.
function draw() {
  $('indicators').setAttribute('aria-pressed', String(state.indicators.length > 0));
  if (rows().length && indicators.written(state.indicators) === indicators.written(shown().chosen)) return;
  $('indicator-rows').replaceChildren(...[...indicators.INDICATORS].flatMap(([id, facts]) => {
    const known = state.indicators.filter((one) => one.id === id);
    return known.length ? known.map(({ parameters }) => row(id, parameters, true)) : [row(id, facts.parameters.map((each) => each.default), false)];
  }));
}

const rows = () => [...$('indicator-rows').children];

function row(id, parameters, isChosen) {
  const facts = indicators.INDICATORS.get(id);
  const fields = facts.parameters.map(({ name, minimum, maximum }, at) => element('input', {
    type: 'number', value: parameters[at], min: minimum, max: maximum, required: true, 'aria-label': `${facts.name} ${name}`, title: name, onchange: take, onkeydown: onKey,
  }));
  const box = element('input', { type: 'checkbox', onchange: take });
  box.checked = isChosen;
  const more = fields.length === 1 && button('+', ({ target }) => addRow(target.closest('.indicator-row'), id), { class: 'icon', title: `Another ${facts.name}`, 'aria-label': `Another ${facts.name}` });
  return element('div', { class: 'indicator-row', 'data-id': id }, element('label', {}, box, facts.name), ...fields, more || null);
}

// Adds a row of the same indicator, with the double of its period.
function addRow(before, id) {
  const { maximum } = indicators.INDICATORS.get(id).parameters[0];
  const period = Math.min(Number(before.querySelector('[type=number]').value) * 2, maximum);
  before.after(row(id, [period], true));
  take();
}

// What the rows show: {chosen, faults}, see indicators.read().
function shown() {
  const texts = rows().filter((each) => each.querySelector('[type=checkbox]').checked)
    .map((each) => [each.dataset.id, ...[...each.querySelectorAll('[type=number]')].map(({ value }) => value)].join('.'));
  return indicators.read(texts.join(','));
}

// Enter in a parameter also draws its indicator.
function onKey({ key, target }) {
  if (key !== 'Enter') return;
  target.closest('.indicator-row').querySelector('[type=checkbox]').checked = true;
  take();
}

function take() {
  const wrong = $('indicator-rows').querySelector(':has(:checked) > [type=number]:invalid');
  if (wrong) {
    $('indicator-fault').textContent = `${wrong.getAttribute('aria-label')}: ${wrong.min} to ${wrong.max}, a whole number.`;
    return;
  }
  const { chosen, faults } = shown();
  $('indicator-fault').textContent = faults.join(' ');
  change(chosen);
}
