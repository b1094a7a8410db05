// Shows the checkpoint's values. For a card with an arena it also draws the arena byte by byte, with the changes since
// the previous checkpoint; for one with linked nodes it lists them.

import { toggleMemory } from './actions.js';
import { isUncovered } from './answers.js';
import { get } from './api.js';
import { $, button, codeOf, element, fill, sentence } from './dom.js';
import { state, stepOf, subscribe } from './state.js';

let reading = null;
let readAt = ''; // the `readingKey()` of `reading`
let requests = 0; // number of requests that were sent; only the answer to the last one counts
let wholeArena = false;

export function start() {
  subscribe((changed) => {
    if (['viewer', 'control', 'answers', 'session', 'teacher', 'catalog'].some((name) => changed.has(name))) show();
  });
  show();
}

// A key that changes only when the memory must be read again. It does not depend on the view or on the position.
function readingKey() {
  const { sync, key, revision, card_revision: card } = state.control;
  return JSON.stringify([sync, key, revision, card]);
}

async function show() {
  const { visible } = state.viewer.viewer.allocator;
  if (!visible && $('memory').hidden) return;
  $('memory').hidden = !visible;
  if (!visible) {
    reading = null;
    return;
  }
  if (!reading || readAt !== readingKey()) {
    const number = ++requests;
    readAt = readingKey();
    const answer = await get('/api/allocator').catch((failure) => ({ reason: failure.message, hasFailed: true }));
    if (number !== requests) return;
    reading = answer;
    if (answer.hasFailed) readAt = ''; // the next change leads to another attempt
  }
  render();
}

function render() {
  const { key, sync } = reading;
  const item = key && state.catalog.item(key);
  const phase = item && state.catalog.item(key.split('/').slice(0, 3).join('/'));
  const head = element('div', { class: 'panel-head' }, element('h2', {}, 'Memory'),
    element('span', { class: 'quiet', dir: 'auto' }, item ? `${phase.title} › ${state.catalog.item(stepOf(key)).title}` : ''),
    element('span', { class: 'space' }),
    button('×', toggleMemory, { class: 'icon', 'aria-label': 'Hide the memory (Alt+6)', title: 'Hide (Alt+6)' }));
  const body = [];
  const reason = reading.available && sync !== 'on' ? 'SYNC is off: the program may have left this checkpoint' : reading.reason;
  if (reason) body.push(element('p', { class: 'quiet' }, sentence(reason)));
  if (!isUncovered(key)) body.push(element('p', { class: 'quiet' }, 'The values are covered until the program has stopped here.'));
  else {
    if (reading.allocator) body.push(...(reading.allocator.base === null ? nodes(reading) : arena(reading)));
    body.push(values(reading));
  }
  $('memory').classList.toggle('stale', sync !== 'on');
  fill($('memory'), head, ...body.filter(Boolean));
}

// -- the strip -----------------------------------------------------------------------------------------------------

function arena({ allocator, difference }) {
  const { size, used, high_water: high } = allocator;
  const added = new Set((difference?.added || []).map(identity));
  const near = nearEnd(allocator);
  const end = wholeArena ? size : near;
  const isCut = end < size;
  const strip = element('div', { class: 'strip', role: 'list', 'aria-label': `Arena of ${size} bytes` },
    ...zones(allocator, added).map((zone) => drawn(zone, end)),
    mark('pointer', used, end, `next free ${hex(allocator.allocation_pointer)}`),
    high !== null && high !== used ? mark('high', high, end, `high water ${high}`) : null);
  const picture = element('div', { class: `picture${isCut ? ' cut' : ''}` }, strip, scale(end), ...(isCut ? rest(size) : []));
  const note = element('p', { class: 'quiet cut-note' }, near < size ? extentButton(size) : null);
  return [picture, note, change(difference), figures(allocator), blockTable(allocator.blocks, added)];
}

// The end of a cut strip: the axis is broken, and the arena's last bytes and its size follow.
function rest(size) {
  const title = `The picture leaves out the free bytes up to ${size}`;
  return [element('div', { class: 'break', title }), element('div', { class: 'strip-end', title }),
    element('div', { class: 'scale', 'aria-hidden': 'true' }, element('span', {}, String(size)))];
}

function nodes({ allocator, difference }) {
  const added = new Set((difference?.added || []).map(identity));
  const rows = allocator.blocks.map((node) => element('tr', {}, blockName(node, added),
    ...[hex(node.offset), node.size].map((text) => element('td', {}, String(text)))));
  return [change(difference, hex), rows.length ? table('values blocks', ['Node', 'Address', 'Size'], rows) : null];
}

function extentButton(size) {
  const toggle = () => {
    wholeArena = !wholeArena;
    render();
  };
  return button(wholeArena ? 'Used part only' : `Whole arena, ${size} bytes`, toggle, { class: 'link quiet' });
}

// The end of the strip that shows the used part: a power of two, with some space after the high-water mark. If that
// strip would show more than half of the arena, the whole arena is shown.
function nearEnd({ size, used, high_water: high }) {
  const needed = Math.max(used, high ?? 0, 12) * 1.3;
  const end = 2 ** Math.ceil(Math.log2(needed));
  return end * 2 <= size ? end : size;
}

// Every byte of the arena belongs to one zone, in the order of the offsets.
function zones({ size, used, blocks }, added) {
  const found = [];
  let end = 0;
  for (const block of blocks) {
    if (block.padding) found.push({ kind: 'padding', from: end, size: block.padding, name: 'padding' });
    const name = block.label ?? `block at ${block.offset}`;
    found.push({ kind: 'used', from: block.offset, size: block.size, name, isNew: added.has(identity(block)) });
    end = block.offset + block.size;
  }
  if (used > end) found.push({ kind: 'used', from: end, size: used - end, name: 'used' });
  if (size > used) found.push({ kind: 'free', from: used, size: size - used, name: 'free' });
  return found;
}

function drawn(zone, end) {
  return element('div', {
    class: `zone ${zone.kind}${zone.isNew ? ' new' : ''}`, role: 'listitem',
    title: `${zone.name}: ${zone.size} bytes at offset ${zone.from}`,
    style: `left:${share(zone.from, end)};width:${share(Math.min(zone.size, end - zone.from), end)}`,
  }, element('span', { class: 'name', dir: 'auto' }, zone.name), element('span', { class: 'bytes' }, `${zone.size} B`));
}

function blockTable(blocks, added) {
  if (!blocks.length) return null;
  const rows = blocks.map((block) => element('tr', {}, blockName(block, added),
    ...[block.offset, block.size, block.padding].map((number) => element('td', {}, String(number)))));
  return table('values blocks', ['Block', 'Offset', 'Size', 'Padding before'], rows);
}

function blockName(block, added) {
  const tag = added.has(identity(block)) ? element('span', { class: 'tag' }, 'new') : null;
  return element('th', { scope: 'row', dir: 'auto' }, block.label ?? '—', tag);
}

function table(kind, heads, rows) {
  const head = element('tr', {}, ...heads.map((text) => element('th', { scope: 'col' }, text)));
  return element('table', { class: kind }, element('thead', {}, head), element('tbody', {}, ...rows));
}

const identity = (block) => `${block.offset} ${block.size} ${block.label}`;
const share = (part, whole) => `${whole ? (100 * part) / whole : 0}%`;
const hex = (address) => `0x${BigInt(address).toString(16)}`;

function mark(kind, offset, size, text) {
  const side = offset > size * 0.6 ? ' left' : '';
  return element('div', { class: `mark ${kind}${side}`, style: `left:${share(offset, size)}` }, element('span', {}, text));
}

function scale(size) {
  const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536].find((each) => size / each <= 8) || size;
  const ticks = [];
  for (let at = 0; at <= size; at += step) ticks.push(element('span', { style: `left:${share(at, size)}` }, String(at)));
  return element('div', { class: 'scale', 'aria-hidden': 'true' }, ...ticks);
}

function figures(allocator) {
  const rows = [
    ['Used', `${allocator.used} of ${allocator.size} bytes (${Math.round(100 * allocator.occupancy)} %)`],
    ['Free', `${allocator.free} bytes`], ['Base', hex(allocator.base)], ['Next free', hex(allocator.allocation_pointer)],
    ['High water', allocator.high_water === null ? null : `${allocator.high_water} bytes`],
  ];
  const known = rows.filter(([, value]) => value !== null);
  return element('dl', { class: 'figures' }, ...known.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
}

function change(difference, place = String) {
  if (!difference) return null;
  const parts = [];
  if (difference.used) parts.push(`used ${signed(difference.used)} bytes`);
  if (difference.high_water) parts.push(`high water ${signed(difference.high_water)}`);
  for (const [name, list] of [['added', difference.added], ['removed', difference.removed]])
    if (list.length) parts.push(`${name}: ${list.map((block) => `${block.label ?? 'block'} (${block.size} B at ${place(block.offset)})`).join(', ')}`);
  return element('p', { class: 'change' }, element('b', {}, 'Since the previous checkpoint: '), parts.join('; ') || 'no change', '.');
}

const signed = (number) => (number > 0 ? `+${number}` : `−${-number}`);

// The table of the checkpoint's values. A changed value has the value at the previous checkpoint beside it.
function values({ values: found, previous_values: before }) {
  const names = Object.keys(found || {});
  if (!names.length) return null;
  const text = (value) => value.value ?? value.error;
  const changed = new Set(names.filter((name) => before[name] && text(before[name]) !== text(found[name])));
  const rows = names.map((name) => element('tr', { class: changed.has(name) ? 'changed' : '' },
    element('th', { scope: 'row' }, codeOf(name)),
    element('td', {}, codeOf(text(found[name]))),
    changed.size ? element('td', {}, changed.has(name) ? codeOf(text(before[name])) : null) : null));
  return table('values', ['Expression', 'Value', ...(changed.size ? ['Before'] : [])], rows);
}
