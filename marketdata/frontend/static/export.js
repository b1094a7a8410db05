// Saves the visible candles as CSV, with the digits of the API, and the chart as a picture.

import * as chart from './chart.js';
import * as decimals from './decimals.js';
import { download, say } from './dom.js';
import * as feed from './feed.js';
import { finality } from './legend.js';
import { state } from './state.js';
import * as zones from './time_zones.js';

const NOTHING = 'There are no candles in sight.';
const COLUMNS = ['t', 'T', 'o', 'h', 'l', 'c', 'v', 'q', 'n', 'vwap', 'closed', 'finalized'];
const HEAD = 56; // pixels above the chart, for the title
const FOOT = 28;

function visibleRows() {
  const view = chart.view();
  return feed.candles()?.rows.filter(({ t }) => view && t >= view.from && t <= view.to) ?? [];
}

export function csv() {
  const rows = visibleRows();
  if (!rows.length) return say(NOTHING);
  const lines = [COLUMNS, ...rows.map((row) => COLUMNS.map((name) => row[name] ?? ''))].map((cells) => cells.join(','));
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
  const picture = new Promise((resolve) => { framed(chart.picture(), rows.at(-1)).toBlob(resolve, 'image/png'); });
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
  framed(chart.picture(), rows.at(-1)).toBlob((picture) => download(`${name(rows)}.png`, picture), 'image/png');
}

const name = (rows) => `${state.symbol.replace(/[^A-Za-z0-9._-]/g, '-')}_${feed.candles().interval}_${zones.parts(rows.at(-1).t, state.zone).date}`;

// Adds the symbol, the last visible candle and the library's notice to the picture of the chart.
function framed(picture, last) {
  const ratio = devicePixelRatio || 1;
  const colours = chart.currentColours();
  const canvas = document.createElement('canvas');
  canvas.width = picture.width;
  canvas.height = picture.height + (HEAD + FOOT) * ratio;
  const context = canvas.getContext('2d');
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, HEAD * ratio);
  const write = (text, x, y, size, colour) => {
    context.font = `${size * ratio}px ${colours.sans}`;
    context.fillStyle = colour;
    context.fillText(text, x * ratio, y * ratio);
  };
  const { date, minute } = zones.parts(last.t, state.zone);
  write(`${state.symbol} · ${feed.candles().interval} · ${zones.label(state.zone)}`, 12, 22, 15, colours.ink);
  const amounts = ['o', 'h', 'l', 'c', 'v'].map((each) => `${each.toUpperCase()} ${decimals.split(last[each])[0]}`).join('   ');
  write(`${date} ${minute}   ${amounts}   n ${last.n}   ${decimals.change(last.o, last.c)}   ${finality(last)}`, 12, 44, 12, colours.soft);
  write('Charts: TradingView Lightweight Charts™, Apache License 2.0 · tradingview.com', 12, canvas.height / ratio - 10, 11, colours.soft);
  return canvas;
}
