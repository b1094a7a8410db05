// Creates elements by calls instead of markup, so that no text is parsed as HTML.

export const PHONE = matchMedia('(max-width: 719px)');
export const NARROW = matchMedia('(max-width: 899px)');

const TOAST_MS = 5000;
let hiding = 0;

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

export function button(label, onclick, attributes = {}) {
  return element('button', { type: 'button', onclick, ...attributes }, label);
}

// Shows a sentence for a few seconds, and tells it to screen readers.
export function say(sentence) {
  clearTimeout(hiding);
  $('toast').textContent = sentence;
  hiding = setTimeout(() => { $('toast').textContent = ''; }, TOAST_MS);
}

// Saves `content` as a file.
export function download(name, content) {
  const link = element('a', { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
