// Starts the page: reads the state, starts the views, then follows the changes.

import { go, leave, load, show } from './actions.js';
import { readAnswers } from './answers.js';
import { Notice } from './api.js';
import * as annotations from './annotations.js';
import * as columns from './columns.js';
import { $, button, element } from './dom.js';
import * as editor from './editor.js';
import * as explain from './explain.js';
import * as failures from './failure.js';
import * as finish from './finish.js';
import * as foot from './foot.js';
import * as keyboard from './keyboard.js';
import * as live from './live.js';
import * as map from './map.js';
import * as memory from './memory.js';
import * as menu from './menu.js';
import * as outline from './outline.js';
import * as program from './program.js';
import { keyOf, state, subscribe, update } from './state.js';
import * as search from './search.js';
import * as session from './session.js';
import * as status from './status.js';
import * as timeline from './timeline.js';
import * as worksheet from './worksheet.js';

async function start() {
  try {
    await load();
  } catch (failure) {
    $('notice').hidden = false;
    $('notice').replaceChildren(failure.message, ' ', button('Try again', () => location.reload()));
    return;
  }
  worksheet.start(await openAddress() || showMoved());
  for (const part of [columns, outline, search, map, status, session, failures, foot, finish, timeline, menu, memory, editor, program, annotations, explain, keyboard]) part.start();
  remember();
  subscribe((changed) => {
    if (changed.has('navigation')) remember();
    if (changed.has('connected')) notice();
  });
  bind();
  live.connect();
  readAnswers();
}

// Go to the position that the address names: `#/task/block/…` (links of the reports) or `#task/block/…`. Returns whether
// the position has changed.
async function openAddress({ hash } = location) {
  const key = keyOf(hash);
  if (!hash || key === state.navigation.key) return false;
  if (state.catalog.item(key)) {
    await go(key);
    return true;
  }
  history.replaceState(null, '', location.pathname + location.search);
  update({ failure: new Notice('Not found.', `This card has no position “${key}”.`) });
  return false;
}

// If the position has changed while this browser had no page open, show it instead of the saved scroll position. Returns
// whether it has changed.
function showMoved() {
  const { revision } = state.navigation;
  if (revision === 0 || localStorage.getItem(seenName()) === String(revision)) return false;
  show(state.navigation);
  return true;
}

const seenName = () => `seen-position ${state.identity.uuid}`;
const remember = () => localStorage.setItem(seenName(), String(state.navigation.revision));

function bind() {
  // When the event arrives, a position that was shown meanwhile may have replaced the page's address.
  addEventListener('hashchange', ({ newURL }) => openAddress(new URL(newURL)));
  addEventListener('pagehide', leave);
}

function notice() {
  $('notice').hidden = state.connected;
  $('notice').replaceChildren(element('b', {}, 'The service does not answer.'), ' The page tries again by itself; what you wrote on the worksheet is kept.');
}

start();
