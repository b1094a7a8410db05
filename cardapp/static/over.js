// The views over the sheets: the results and the events. One is open at a time. While it is open, no input
// reaches the sheets.

import { $ } from './dom.js';

const PAGES = ['finish', 'events'];

export const isOpen = () => PAGES.some((id) => !$(id).hidden);

export function open(id) {
  for (const each of PAGES) $(each).hidden = each !== id;
  for (const each of $(id).parentElement.children) each.inert = each !== $(id);
  $(id).focus({ preventScroll: true });
}

export function close() {
  for (const each of PAGES) $(each).hidden = true;
  for (const each of $(PAGES[0]).parentElement.children) each.inert = false;
}
