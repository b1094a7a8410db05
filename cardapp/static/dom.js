// Makes elements without markup, so no text is parsed as HTML.

export const $ = (id) => document.getElementById(id);

// element('button', { class: 'icon', onclick: f }, 'text', otherElement)
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Replace the content of `place`; null children are left out. If an old element had the focus, the new element with the
// same name gets it.
export function fill(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  place.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  if (focused && !focused.isConnected) {
    const same = [...place.querySelectorAll(focused.localName)].find((each) => called(each) === called(focused));
    same?.focus({ preventScroll: true });
  }
}

const called = (made) => made.ariaLabel ?? made.textContent;

// A sentence with a capital letter and a full stop. The service's messages may have neither.
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

export function button(label, onclick, attributes = {}) {
  return element('button', { type: 'button', onclick, ...attributes }, label);
}

// The code of an expression or a value. It breaks between its words; a word that is longer than the line breaks before its
// next part, like `->kind` or `[cursor]`, or after an underscore, and never inside a name.
export function codeOf(text, attributes = {}) {
  const words = wordsOf(text).flatMap((word, at) => [at ? ' ' : null, word ? element('span', { class: 'word' }, ...partsOf(word)) : null]);
  return element('code', attributes, ...words);
}

// The words, separated by blanks outside of brackets: `(char *)p` is one word. An operator stays with the word before
// it.
function wordsOf(text) {
  const words = [];
  let depth = 0;
  for (const piece of text.split(' ')) {
    const isSign = words.length > 0 && /^[^\p{L}\p{N}]+$/u.test(piece);
    words.push(depth > 0 || isSign ? `${words.pop()} ${piece}` : piece);
    depth = Math.max(0, depth + piece.split(/[([]/).length - piece.split(/[)\]]/).length);
  }
  return words;
}

const PART = /[^\p{L}\p{N}\p{M}]*[\p{L}\p{N}\p{M}]+_*(?:[^\p{L}\p{N}\p{M}]+$)?/gu;
const partsOf = (word) => (word.match(PART) ?? [word]).flatMap((part, at) => (at ? [element('wbr'), part] : [part]));

// A shell command that a click copies.
export function copyButton(command) {
  const made = button(command, async () => {
    await navigator.clipboard?.writeText(command).catch(() => {});
    made.textContent = 'Copied';
    setTimeout(() => { made.textContent = command; }, 1200);
  }, { class: 'command', title: 'Copy the command' });
  return made;
}
