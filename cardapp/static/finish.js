// The page after the last stop: the predictions that were right at the first try, the stops to look at again, and the
// time that it took.

import { go } from './actions.js';
import { LEFT_EMPTY, recorded } from './answers.js';
import { get, Notice } from './api.js';
import { $, button, codeOf, element, fill } from './dom.js';
import * as over from './over.js';
import { state, stepOf, stopsBeside, subscribe, update } from './state.js';

export function start() {
  $('results').onclick = open;
  subscribe((changed) => { if (changed.has('navigation') && !$('finish').hidden) over.close(); });
}

export async function open() {
  await recorded();
  try {
    const { items, summary } = await get('/api/answers');
    fill($('finish'), ...pageOf(items, summary));
  } catch (failure) {
    update({ failure: new Notice('No results.', failure.message) });
    return;
  }
  over.open('finish');
}

function show(position) {
  over.close();
  go(position);
}

function pageOf(items, summary) {
  const again = items.filter((item) => reasonOf(item));
  const known = new Map(items.map((item) => [item.key, item]));
  const left = state.catalog.stops.filter(({ key }) => !known.get(key)?.revealed);
  return [
    element('div', { class: 'over-head' },
      element('h2', {}, left.length ? 'So far' : 'Finished'), element('span', { class: 'space' }),
      button('×', over.close, { class: 'icon', 'aria-label': 'Close the results (Escape)', title: 'Close (Escape)' })),
    element('dl', {},
      ...figure(`${summary.right_first} of ${summary.predicted}`, `stop${plural(summary.predicted)} predicted right at the first try`),
      ...(summary.looked_first ? figure(summary.looked_first, `stop${plural(summary.looked_first)} where you looked first`) : []),
      ...figure(duration(summary.seconds), 'of work, without the long breaks')),
    ...(left.length ? [element('p', {}, `${left.length} of ${summary.stops} stops are left. `, button('Go to the first of them', () => show(positionOf(left[0].key)), { class: 'link' }))] : []),
    element('h3', {}, again.length ? 'Look at again' : 'Nothing to look at again'),
    element('ul', {}, ...again.map(entry)),
  ];
}

const plural = (count) => (count === 1 ? '' : 's');

const figure = (number, words) => [element('dt', {}, String(number)), element('dd', {}, words)];

function duration(seconds) {
  const minutes = Math.round(seconds / 60);
  if (minutes < 1) return `${seconds} s`;
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// The position that shows a stop: its step, if the step has no other.
const positionOf = (stop) => (stopsBeside(stop).length > 1 ? stop : stepOf(stop));

// Why a stop is worth another look, as the parts of a text; null if it is not.
function reasonOf({ predictions, looked_first: looked, self }) {
  const wrong = predictions.filter(({ right }) => right === false);
  if (wrong.length) return wrong.flatMap((each, at) => [at ? '; ' : null, ...mistake(each)]);
  if (self === 'no' || self === 'partly') return [self === 'no' ? 'you did not get it' : 'you got it partly'];
  return looked ? ['you looked first'] : null;
}

const mistake = ({ expression, empty, seen, shown }) => [
  codeOf(expression), ...(empty ? [`: ${LEFT_EMPTY}`] : [': you said ', codeOf(shown.said, { title: shown.said_title })]),
  ...(seen === null ? [] : [', it is ', codeOf(shown.seen, { title: shown.seen_title })]),
];

function entry(item) {
  const { key } = item;
  const stops = stopsBeside(key);
  const which = stops.length > 1 ? `, stop ${stops.findIndex((each) => each.key === key) + 1}` : '';
  const name = `${state.catalog.number.get(stepOf(key))} ${state.catalog.item(stepOf(key)).title}${which}`;
  const position = positionOf(key);
  return element('li', {},
    element('a', { href: `#/${position}`, dir: 'auto', onclick: (event) => { event.preventDefault(); show(position); } }, name),
    element('span', { class: 'quiet', dir: 'auto' }, ...reasonOf(item)));
}
