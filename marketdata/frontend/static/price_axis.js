// What the page adds to the price axis. The newest price has a label there, with an arrow at the edge when it is out of sight.
// While the user has dragged the axis, there is a button `Auto`. Where no candle is left in sight, the axis fits them again.

import * as chart from './chart.js';
import { titled } from './commands.js';
import { $, say } from './dom.js';
import * as feed from './feed.js';
import { state, subscribe } from './state.js';

const HALF = 10; // pixels, of the label's height
const LOOK_MS = 250; // after a movement of the axis

let price = null; // the newest one, a decimal
let isPressed = false; // whether a pointer is down: the user may bring the candles back
let timer = 0;

export function start() {
  $('auto').onclick = chart.autoScale;
  $('auto').title = titled('auto');
  feed.onCandles(setPrice);
  subscribe((changed) => { if (changed.has('price')) setPrice(); });
  $('chart').addEventListener('pointerdown', () => { isPressed = true; }, { capture: true });
  for (const name of ['pointerup', 'pointercancel']) addEventListener(name, () => { isPressed = false; }, { capture: true });
}

// Called when the axis is painted.
export function draw() {
  const isAuto = chart.isAutoScaled();
  $('auto').hidden = isAuto;
  if (!isAuto) timer ||= setTimeout(look, LOOK_MS);
  drawPrice();
}

// The newest candle closes at the newest price. If newer candles than the loaded ones exist, the newest trade tells it.
function setPrice() {
  const known = feed.candles();
  const found = known && (known.hasNewer ? state.price : known.last?.c ?? null);
  if (found === price) return;
  price = found;
  chart.setNewestPrice(price);
  drawPrice();
}

function drawPrice() {
  const label = $('last-price');
  const place = price === null ? null : chart.placeOf(price);
  label.hidden = !place;
  if (!place) return;
  const { y, text, height, width } = place;
  const arrow = y < 0 ? '↑ ' : y > height ? '↓ ' : '';
  if (label.textContent !== arrow + text) label.textContent = arrow + text;
  label.classList.toggle('away', arrow !== '');
  label.style.minWidth = $('auto').style.width = `${width}px`;
  label.style.top = `${Math.min(Math.max(y, HALF), height - HALF)}px`;
}

function look() {
  timer = 0;
  if (isPressed) timer = setTimeout(look, LOOK_MS);
  else if (!chart.isAutoScaled() && chart.isOutOfSight()) {
    chart.autoScale();
    say('No candle was at these prices. The axis fits them again.');
  }
}
