// Measures the positions of the page's parts. Each function named `…Faults` returns descriptions of the faults.

const CONTROLS = 'button, input, textarea, a, summary';
const SCROLLING = '.memory, .matches, .result, #tree-panel, .map-view, .program-parts';
const nameOf = (node) => node.ariaLabel || node.textContent.trim() || node.id || node.className;
const parentOf = (node) => node.parentElement ?? node.getRootNode().host ?? null;
const isSeen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getBoundingClientRect().width > 2;

// The part of the window in which the node is visible, not cut off by its ancestors.
function frameOf(node) {
  const found = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
  for (let each = parentOf(node); each && each !== document.body; each = parentOf(each)) {
    const { overflow, display } = getComputedStyle(each);
    if (overflow === 'visible' || display === 'contents') continue;
    const { left, top, right, bottom } = each.getBoundingClientRect();
    found.left = Math.max(found.left, left);
    found.top = Math.max(found.top, top);
    found.right = Math.min(found.right, right);
    found.bottom = Math.min(found.bottom, bottom);
  }
  return found;
}

function isAcross(node) {
  const { left, right } = node.getBoundingClientRect();
  const frame = frameOf(node);
  return left > frame.left - 1 && right < frame.right + 1;
}

function isInSight(node) {
  const { top, bottom } = node.getBoundingClientRect();
  const frame = frameOf(node);
  return isSeen(node) && isAcross(node) && top > frame.top - 1 && bottom < frame.bottom + 1;
}

function isOnTop(node) {
  const { left, top, right, bottom } = node.getBoundingClientRect();
  const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  return node.contains(hit) || hit?.contains(node);
}

// Names in code that are broken across lines.
function brokenNames(root) {
  const found = [];
  for (const code of root.querySelectorAll('code')) {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const { 0: name, index } of walker.currentNode.data.matchAll(/[\p{L}\p{N}]+/gu)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, index);
        range.setEnd(walker.currentNode, index + name.length);
        if (range.getClientRects().length > 1) found.push(`${name} is broken`);
      }
    }
  }
  return found;
}

// -- the trail -----------------------------------------------------------------------------------------------------

async function goTo(key) {
  const moved = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }));
  location.hash = `#/${key}`;
  await moved;
}

// Goes to one step after the other. The step's title must be complete. Its ancestors are shown as numbers with
// tooltips.
async function trailFaults(steps) {
  const found = [];
  const bar = document.querySelector('.bar');
  const height = bar.offsetHeight;
  document.getElementById('sync-state').append(' binding building resetting replaying verifying'); // as during a replay
  for (const step of steps) {
    await goTo(step);
    const [title, ...ancestors] = [...document.querySelectorAll('#trail button')].reverse();
    if (!isInSight(title) || title.scrollWidth > title.clientWidth) found.push(`${title.textContent} is cut off`);
    if (bar.offsetHeight !== height) found.push(`${step} makes the bar ${bar.offsetHeight} px high`);
    const named = ancestors.filter(({ title: whole, firstChild, lastChild }) => whole && /^[\d.]+$/.test(firstChild.data) && !isSeen(lastChild));
    if (named.length !== 3) found.push(`${step} has ${named.length} numbers`);
  }
  return found;
}

// -- the foot ------------------------------------------------------------------------------------------------------

const LEAST_SHEET = 90; // px
const IN_FOOT = `.question, .hint:last-child, .explanation, [role=row], #act, ${CONTROLS}`;

// Goes to one stop after the other. `needed` are selectors of elements that the foot must have there.
async function footFaults([stops, needed]) {
  const found = [];
  for (const stop of stops) {
    await goTo(stop);
    found.push(...footFaultsHere(needed).map((fault) => `${stop}: ${fault}`));
  }
  return found;
}

function footFaultsHere(needed) {
  const foot = document.getElementById('foot');
  const parts = [...foot.querySelectorAll(IN_FOOT)].filter(isSeen);
  const { height } = document.getElementById('scroller').getBoundingClientRect();
  return [
    ...needed.filter((selector) => !parts.some((node) => node.matches(selector))).map((selector) => `no ${selector}`),
    ...parts.filter((node) => !isInSight(node)).map((node) => `${nameOf(node)} is out of sight`),
    ...[...foot.querySelectorAll('[role=row] > *')].filter(isCrowded).map((cell) => `${nameOf(cell)} has no room`),
    ...brokenNames(foot),
    ...(height < LEAST_SHEET ? [`only ${height} px of the sheet`] : []),
  ];
}

function isCrowded(cell) {
  const next = cell.nextElementSibling;
  return cell.scrollWidth > cell.clientWidth + 1 || (next && cell.getBoundingClientRect().right > next.getBoundingClientRect().left);
}

// -- code ----------------------------------------------------------------------------------------------------------

// The lines of code on the shown sheets that are wider than their part.
function codeFaults() {
  const lines = [...document.getElementById('sheets').shadowRoot.querySelectorAll('.source .line')];
  return lines.filter((line) => line.scrollWidth > line.clientWidth + 1).map((line) => `${line.textContent.trim()} is cut off`);
}

// -- all controls --------------------------------------------------------------------------------------------------

// Every control is completely on the screen and not covered. In a part that scrolls, this must hold at least
// horizontally.
function controlFaults() {
  return [...document.querySelectorAll(CONTROLS)].filter(isSeen).flatMap((node) => {
    if (node.closest('.trail') || node.matches('.hidden-input')) return [];
    if (node.closest(SCROLLING)) return isAcross(node) ? [] : [`${nameOf(node)} is cut off`];
    if (!isInSight(node)) return [`${nameOf(node)} is off the screen`];
    return isOnTop(node) ? [] : [`${nameOf(node)} is covered`];
  });
}

// -- one column ----------------------------------------------------------------------------------------------------

function columnFaults() {
  const wide = [...document.querySelectorAll('*')].filter((node) => isSeen(node) && scrollsAcross(node));
  const cut = [...document.querySelectorAll(CONTROLS)].filter((node) => isSeen(node) && !isAcross(node));
  const columns = ['.reading', '#foot', '#side'].map((name) => document.querySelector(name));
  const narrow = columns.filter((node) => node.getBoundingClientRect().width !== innerWidth);
  const bottom = document.documentElement.scrollHeight - innerHeight;
  return [
    ...wide.map((node) => `${nameOf(node).slice(0, 40)} scrolls across`),
    ...cut.map((node) => `${nameOf(node)} is cut off`),
    ...narrow.map((node) => `${nameOf(node).slice(0, 40)} is no column`),
    ...[0, bottom / 2, bottom].filter((top) => !reachesFoot(top)).map((top) => `the button is out of reach at ${top}`),
  ];
}

function scrollsAcross(node) {
  const isPage = node === document.documentElement;
  const canScroll = isPage || /auto|scroll/.test(getComputedStyle(node).overflowX);
  return canScroll && node.scrollWidth > node.clientWidth + 1 && !node.matches('pre, .canvas-area');
}

function reachesFoot(top) {
  scrollTo(0, top);
  const act = document.getElementById('act');
  const found = isInSight(act) && isOnTop(act);
  scrollTo(0, 0);
  return found;
}

// -- text ----------------------------------------------------------------------------------------------------------

const LEAST_TEXT = 11; // px

// Texts in the page's own parts that are painted smaller than `LEAST_TEXT`.
function textFaults() {
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !isSeen(node) || node.closest('.canvas-area pre')) continue;
    const scale = node.getScreenCTM ? node.getScreenCTM().a : 1;
    const size = parseFloat(getComputedStyle(node).fontSize) * scale;
    if (size < LEAST_TEXT) found.add(`${size.toFixed(2)} px: ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return [...found];
}
