// How a typed prediction is understood, shown beside its field before it is predicted: `8u` reads 8, `eight` is no value.

import { post } from './api.js';
import { codeOf, element, fill } from './dom.js';

const PAUSE_MS = 250; // after the last key
const NO_VALUE = 'this is no value';

// The place beside the field. `number` tells the fields of a stop apart.
export function readingOf(stop, expression, field, number) {
  const place = element('span', { class: 'understood quiet', id: `reading-${number}`, 'aria-live': 'polite' });
  field.setAttribute('aria-describedby', place.id);
  let timer = 0;
  const read = async () => {
    const text = field.value;
    const found = text.trim() ? await post('/api/predictions/read', { key: stop, values: { [expression]: text } }).catch(() => null) : null;
    if (field.value === text) show(place, text, found?.values[expression]);
  };
  field.addEventListener('input', () => {
    clearTimeout(timer);
    if (field.value.trim()) timer = setTimeout(read, PAUSE_MS);
    else show(place);
  });
  if (field.value.trim()) read();
  return place;
}

function show(place, text, found) {
  const parts = found ? partsOf(text, found) : [];
  place.classList.toggle('none', found?.reads === null);
  place.title = found?.reason ?? '';
  fill(place, ...parts);
}

// Blanks, and the quotes around a text, make no difference that is worth a word.
const plain = (text) => text.replace(/\s+/g, '').replace(/^"(.*)"$/, '$1');

function partsOf(text, { reads, reason }) {
  if (reads === null) return [reason === NO_VALUE ? reason : `${NO_VALUE}: ${reason}`];
  return plain(reads) === plain(text) ? [] : ['reads ', codeOf(reads)];
}
