// Menus: panels of controls that a button opens and closes.

import { $ } from './dom.js';

// Connects a button with its menu, an element with the attribute `popover`. A click outside and Escape close a menu.
export function connect(buttonId, menuId) {
  const [button, menu] = [$(buttonId), $(menuId)];
  button.popoverTargetElement = menu;
  menu.addEventListener('toggle', (event) => {
    const isOpen = event.newState === 'open';
    button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) place(button, menu);
    if (isOpen) menu.querySelector('button, input, select')?.focus();
  });
}

export const toggle = (menuId) => $(menuId).togglePopover();

// Puts a menu below its button, and inside the window.
function place(button, menu) {
  const { left, bottom } = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(Math.min(left, innerWidth - width - 8), 8)}px`;
  menu.style.top = `${Math.max(Math.min(bottom + 4, innerHeight - height - 8), 8)}px`;
}
