// Saves the visible candles as CSV, with the digits of the API, and the chart as a picture.

import * as chart from './chart.js';
import { $, download, say } from './dom.js';
import * as feed from './feed.js';
import { state } from './state.js';
import * as zones from './time_zones.js';

const NOTHING = 'There are no candles in sight.';
const COLUMNS = ['t', 'T', 'o', 'h', 'l', 'c', 'v', 'q', 'n', 'vwap', 'bv', 'closed', 'finalized'];
const HEAD = 56; // pixels above the chart, for the title and a line of the legend
const LINE = 18; // the height of each further line, at the head and at the foot
const FOOT = 28;
const NOTICE = ['Charts: TradingView Lightweight Charts™, Apache License 2.0', 'tradingview.com'];

function visibleRows() {
  const view = chart.view();
  return feed.candles()?.rows.filter(({ t }) => view && t >= view.from && t <= view.to) ?? [];
}

export function csv() {
  const rows = visibleRows();
  if (!rows.length) return say(NOTHING);
  const lines = [COLUMNS, ...rows.map(({ t }) => chart.drawnAt(t)).map((row) => COLUMNS.map((name) => row[name] ?? ''))].map((cells) => cells.join(','));
  download(`${name(rows)}.csv`, new Blob([`${lines.join('\r\n')}\r\n`], { type: 'text/csv' }));
}

// Copies the address of the view, and says so.
export async function copyLink() {
  say(await copied(() => navigator.clipboard.writeText(location.href)) ? 'The link is copied.' : 'The browser does not allow to copy. The link is in its address bar.');
}

// Copies the picture of the chart.
export async function copyImage() {
  const rows = visibleRows();
  if (!rows.length) return say(NOTHING);
  const picture = new Promise((resolve) => { framed(chart.picture()).toBlob(resolve, 'image/png'); });
  const isCopied = await copied(() => navigator.clipboard.write([new ClipboardItem({ 'image/png': picture })]));
  return say(isCopied ? 'The picture is copied.' : 'The browser does not allow to copy a picture. Alt+S saves it as a file.');
}

// Whether a write to the clipboard worked. Without a secure connection browsers have no clipboard.
async function copied(write) {
  try {
    await write();
    return true;
  } catch {
    return false;
  }
}

export function png() {
  const rows = visibleRows();
  if (!rows.length) return say(NOTHING);
  framed(chart.picture()).toBlob((picture) => download(`${name(rows)}.png`, picture), 'image/png');
}

const name = (rows) => `${feed.symbol().replace(/[^A-Za-z0-9._-]/g, '-')}_${feed.candles().interval}_${zones.parts(rows.at(-1).t, state.zone).date}`;

// Adds the symbol, the legend and the library's notice to the picture of the chart.
function framed(picture) {
  const ratio = devicePixelRatio || 1;
  const colours = chart.currentColours();
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d');
  const font = (size) => `${size * ratio}px ${colours.sans}`;
  context.font = font(12);
  const fits = (text) => context.measureText(text).width <= picture.width - 24 * ratio;
  const [lines, notice] = [wrapped(legendTexts(), fits), wrapped(NOTICE, fits)];
  const head = HEAD + (lines.length - 1) * LINE;
  canvas.width = picture.width;
  canvas.height = picture.height + (head + FOOT + (notice.length - 1) * LINE) * ratio;
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, head * ratio);
  const write = (text, y, size, colour, x = 12) => {
    context.font = font(size);
    context.fillStyle = colour;
    context.fillText(text, x * ratio, y * ratio);
  };
  drawPrice(context, head, ratio, colours, write);
  write(`${feed.symbol()} · ${feed.candles().interval} · ${zones.label(state.zone)}`, 22, 15, colours.ink);
  lines.forEach((line, at) => write(line, 44 + at * LINE, 12, colours.soft));
  notice.forEach((line, at) => write(line, canvas.height / ratio - 10 - (notice.length - 1 - at) * LINE, 11, colours.soft));
  return canvas;
}

// The newest price at the axis, which is no part of the picture of the chart.
function drawPrice(context, head, ratio, colours, write) {
  const label = $('last-price');
  if (label.hidden) return;
  const [left, top] = [label.offsetLeft, head + label.offsetTop - label.offsetHeight / 2];
  context.fillStyle = colours.accent;
  context.fillRect(left * ratio, top * ratio, label.offsetWidth * ratio, label.offsetHeight * ratio);
  write(label.textContent, top + 14, 12, colours.paper, left + 11);
}

// The texts of the legend: the time, the amounts of the candle, and the indicators. Digits after the first significant ones
// are left out.
function legendTexts() {
  const parts = [...$('legend').children].flatMap((each) => (each.children.length ? [...each.children] : [each]));
  return parts.map((part) => {
    const copy = part.cloneNode(true);
    for (const tail of copy.querySelectorAll('.tail')) tail.remove();
    for (const name of copy.querySelectorAll('b')) name.append(' ');
    return copy.textContent.replace(/ +/g, ' ').trim();
  }).filter(Boolean);
}

// Puts texts into as few lines as fit.
function wrapped(texts, fits) {
  const lines = [];
  for (const text of texts) {
    const longer = `${lines.at(-1)}   ${text}`;
    if (lines.length && fits(longer)) lines[lines.length - 1] = longer;
    else lines.push(text);
  }
  return lines;
}
