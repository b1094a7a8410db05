// The two dialogs that typed keys open: the search for a symbol, and the choice of an interval.

import { $, element } from './dom.js';
import * as intervals from './intervals.js';
import { state, now, subscribe } from './state.js';

// A list of matches for the typed text. `find(typed)` returns the matches, [{value, cells}]. `choose(value)` is called with
// the chosen value.
class Picker {
  constructor({ dialog, input, list, find, choose, none }) {
    Object.assign(this, { dialog: $(dialog), input: $(input), list: $(list), find, choose, none, at: 0, found: [] });
    this.input.addEventListener('input', () => this.search());
    this.input.addEventListener('keydown', (event) => this.#key(event));
    this.dialog.addEventListener('click', (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  open(typed = '') {
    if (!this.dialog.open) this.dialog.showModal();
    this.input.value = typed;
    this.input.focus();
    this.search();
  }

  search() {
    this.found = this.find(this.input.value);
    this.at = 0;
    this.#draw();
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.at = (this.at + step + this.found.length) % Math.max(this.found.length, 1);
      this.#draw();
    } else if (event.key === 'Enter') this.#take(this.found[this.at]);
    else if (event.key === 'Escape') this.dialog.close(); // by default, Escape only empties a search field
    else return;
    event.preventDefault();
  }

  #take(found) {
    if (!found) return;
    this.dialog.close();
    this.choose(found.value);
  }

  #draw() {
    const { id } = this.list;
    this.list.replaceChildren(...this.found.map(({ cells }, at) => element('li', {
      id: `${id}-${at}`, role: 'option', 'aria-selected': String(at === this.at), onclick: () => this.#take(this.found[at]),
    }, ...cells)));
    if (!this.found.length) this.list.replaceChildren(element('li', { class: 'none', role: 'option', 'aria-disabled': 'true' }, this.none));
    if (this.found.length) this.input.setAttribute('aria-activedescendant', `${id}-${this.at}`);
    else this.input.removeAttribute('aria-activedescendant');
    this.list.children[this.at]?.scrollIntoView({ block: 'nearest' });
  }
}

let symbols = null;
let entry = null;

export function start({ onSymbol, onInterval }) {
  symbols = new Picker({ dialog: 'picker', input: 'search', list: 'matches', find: findSymbols, choose: onSymbol, none: 'No symbol has that in its name.' });
  entry = new Picker({ dialog: 'entry', input: 'typed', list: 'readings', find: findIntervals, choose: onInterval, none: 'No such interval. Try 5, 1h, D or 1M.' });
  subscribe((changed) => { if (changed.has('symbols') && symbols.dialog.open) symbols.search(); });
}

export const openSymbols = (typed) => symbols.open(typed);
export const openInterval = (typed) => entry.open(typed);

export const isDemo = (symbol) => symbol?.startsWith('DEMO:') ?? false;

function findSymbols(typed) {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = state.symbols.filter(({ symbol, aliases }) => words.every((word) => [symbol, ...aliases].some((name) => name.toLowerCase().includes(word))));
  // Symbols come first if the whole name, or the part after the chain, begins with the typed letters.
  const isFirst = ({ symbol }) => Boolean(words.length) && [symbol, symbol.split(':')[1] ?? ''].some((name) => name.toLowerCase().startsWith(words[0]));
  return matches.sort((one, other) => isFirst(other) - isFirst(one)).map(({ symbol, aliases, last }) => ({
    value: symbol,
    cells: [element('b', {}, symbol), element('span', { class: 'quiet' }, aliases.join(', ')), element('span', { class: 'quiet age' }, ago(last))],
  }));
}

function ago(time) {
  const seconds = Math.max((now() - time) / 1000, 0);
  if (seconds < 60) return 'traded just now';
  const [count, unit] = seconds < 3600 ? [seconds / 60, 'min'] : seconds < 172_800 ? [seconds / 3600, 'h'] : [seconds / 86_400, 'days'];
  return `traded ${Math.round(count)} ${unit} ago`;
}

const findIntervals = (typed) => intervals.matching(typed).map((interval) => ({
  value: interval, cells: [element('b', {}, interval), element('span', { class: 'quiet' }, intervals.inWords(interval))],
}));
