// The dialogs with a search: the choice of a symbol, of an interval, and of a time zone.

import { grouped } from './decimals.js';
import { $, element } from './dom.js';
import * as intervals from './intervals.js';
import { now, subscribe } from './state.js';
import * as symbols from './symbols.js';
import { label } from './time_zones.js';
import * as zones from './zone_choices.js';

const SHOWN = 50; // rows; further matches are only counted
const PAGE = 10; // rows that PageUp and PageDown move by

// A list of matches for the typed text. `find(typed)` returns the matches, [{value, cells}], where cells() makes the content
// of a row. `choose(value)` is called with the chosen value.
class Picker {
  constructor({ dialog, input, list, find, choose, none }) {
    Object.assign(this, { dialog: $(dialog), input: $(input), list: $(list), find, choose, none, at: 0, found: [] });
    this.rest = element('p', { class: 'rest' });
    this.list.after(this.rest);
    this.input.addEventListener('input', () => this.search());
    this.input.addEventListener('keydown', (event) => this.#key(event));
    this.list.addEventListener('click', ({ target }) => this.#take([...this.list.children].indexOf(target.closest('li'))));
    this.dialog.addEventListener('click', (event) => { if (event.target === this.dialog) this.#close(); });
  }

  open(typed = '') {
    if (!this.dialog.open) this.dialog.showModal();
    this.input.value = typed;
    this.input.focus();
    this.search();
  }

  search() {
    this.found = this.find(this.input.value);
    this.#draw();
    this.#highlight(0);
  }

  #close() {
    this.dialog.close();
    this.input.blur(); // otherwise the keys until the next frame go to the hidden field
  }

  // Searches again in a new list. The highlight stays on its value.
  refresh() {
    const kept = this.found[this.at]?.value;
    this.search();
    this.#highlight(Math.max(this.found.slice(0, SHOWN).findIndex(({ value }) => value === kept), 0));
  }

  #key(event) {
    if (event.isComposing || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = Math.min(this.found.length, SHOWN) - 1;
    const to = {
      ArrowDown: this.at < last ? this.at + 1 : 0, ArrowUp: this.at > 0 ? this.at - 1 : last,
      PageDown: Math.min(this.at + PAGE, last), PageUp: Math.max(this.at - PAGE, 0), Home: 0, End: last,
    }[event.key];
    if (to !== undefined) this.#highlight(to);
    else if (event.key === 'Enter') this.#take(this.at);
    else if (event.key === 'Escape') this.#close(); // by default, Escape only empties a search field
    else return;
    event.preventDefault();
  }

  #take(at) {
    if (!this.found[at]) return;
    this.#close();
    this.choose(this.found[at].value);
  }

  #draw() {
    const rows = this.found.slice(0, SHOWN).map(({ cells }, at) => element('li', { id: `${this.list.id}-${at}`, role: 'option', 'aria-selected': 'false' }, ...cells()));
    if (!rows.length) rows.push(element('li', { class: 'none', role: 'option', 'aria-disabled': 'true' }, this.none));
    this.list.replaceChildren(...rows);
    const more = this.found.length - SHOWN;
    this.rest.textContent = more > 0 ? `${grouped(String(more))} more: type more letters` : '';
  }

  #highlight(at) {
    this.input.removeAttribute('aria-activedescendant');
    if (!this.found.length) return;
    this.list.children[this.at]?.setAttribute('aria-selected', 'false');
    this.at = at;
    const row = this.list.children[at];
    row.setAttribute('aria-selected', 'true');
    this.input.setAttribute('aria-activedescendant', row.id);
    row.scrollIntoView({ block: 'nearest' });
  }
}

let symbol = null;
let interval = null;
let zone = null;

export function start({ onSymbol, onInterval, onZone }) {
  symbol = new Picker({ dialog: 'picker', input: 'search', list: 'matches', find: findSymbols, choose: onSymbol, none: 'No symbol has that in its name.' });
  interval = new Picker({ dialog: 'entry', input: 'typed', list: 'readings', find: findIntervals, choose: onInterval, none: 'No such interval. Try 5, 1h, D or 1M.' });
  zone = new Picker({ dialog: 'zones', input: 'zone-search', list: 'zone-matches', find: findZones, choose: onZone, none: 'No time zone has that in its name. Try a city, or an offset like +2.' });
  subscribe((changed) => { if (changed.has('symbols') && symbol.dialog.open) symbol.refresh(); });
}

export function openSymbols(typed) {
  symbol.open(typed);
  symbols.read();
}

export const openInterval = (typed) => interval.open(typed);
export const openZone = () => zone.open();

const findSymbols = (typed) => symbols.matching(typed).map(({ symbol: name, aliases, last }) => ({
  value: name,
  cells: () => [
    element('b', { title: name }, name), element('span', { class: 'quiet', title: aliases.join(', ') }, aliases.join(', ')),
    element('span', { class: 'quiet age' }, ago(last)),
  ],
}));

function ago(time) {
  const seconds = Math.max((now() - time) / 1000, 0);
  if (seconds < 60) return 'traded just now';
  const [count, unit] = seconds < 3600 ? [seconds / 60, 'min'] : seconds < 172_800 ? [seconds / 3600, 'h'] : [seconds / 86_400, 'days'];
  return `traded ${Math.round(count)} ${unit} ago`;
}

const findIntervals = (typed) => intervals.matching(typed).map((each) => ({
  value: each, cells: () => [element('b', {}, each), element('span', { class: 'quiet' }, intervals.inWords(each))],
}));

const findZones = (typed) => zones.matching(typed).map((each) => ({
  value: each,
  cells: () => {
    const { offset, time, remark } = zones.description(each);
    return [element('b', { title: label(each) }, label(each)), element('span', { class: 'quiet' }, remark), element('span', { class: 'quiet age' }, `${time} · ${offset}`)];
  },
}));
