// Paints behind the candles: hatching over times that were not indexed, breaks where time was cut, and a band at a corrected
// candle.

const LABEL_TOP = 72; // pixels, below the legend
const FADE_MS = 1200;
const NO_MOTION = matchMedia('(prefers-reduced-motion: reduce)');

// `gaps` are [{from, to, label, isFailed}]. `from` and `to` are logical indexes of the chart; each is the left edge of a bar.
export class Hatching {
  constructor() {
    this.gaps = [];
    this.colours = null;
  }

  attached({ chart, requestUpdate }) {
    this.chart = chart;
    this.requestUpdate = requestUpdate;
  }

  set(gaps, colours) {
    this.gaps = gaps;
    this.colours = colours;
    this.requestUpdate?.();
  }

  paneViews() {
    return [{ zOrder: () => 'bottom', renderer: () => ({ draw() {}, drawBackground: (target) => target.useBitmapCoordinateSpace((scope) => this.#draw(scope)) }) }];
  }

  #draw({ context, bitmapSize, horizontalPixelRatio: ratio }) {
    const scale = this.chart.timeScale();
    for (const { from, to, label, isFailed } of this.gaps) {
      const [left, right] = [from, to].map((at) => Math.round(edge(scale, at) * ratio));
      const [start, end] = [Math.max(left, 0), Math.min(right, bitmapSize.width)];
      if (end - start < 1) continue;
      context.save();
      context.beginPath();
      context.rect(start, 0, end - start, bitmapSize.height);
      context.clip();
      context.strokeStyle = isFailed ? this.colours.failed : this.colours.hatch;
      context.lineWidth = ratio;
      const step = 9 * ratio;
      // The lines are anchored to the screen, so that panning does not move them.
      context.beginPath();
      for (let x = Math.floor((start - bitmapSize.height) / step) * step; x < end; x += step) {
        context.moveTo(x, bitmapSize.height);
        context.lineTo(x + bitmapSize.height, 0);
      }
      context.stroke();
      writeLabel(context, this.colours, { label, x: (start + end) / 2, y: LABEL_TOP * ratio, room: end - start }, ratio);
      context.restore();
    }
  }
}

// Writes a label if it has room.
function writeLabel(context, colours, { label, x, y, room }, ratio) {
  context.font = `${12 * ratio}px ${colours.sans}`;
  const size = context.measureText(label).width + 16 * ratio;
  if (size > room) return;
  context.fillStyle = colours.paper;
  context.fillRect(x - size / 2, y - 12 * ratio, size, 24 * ratio);
  context.fillStyle = colours.soft;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(label, x, y);
}

const BREAK_TOP = 40; // pixels, below the legend
const BREAK_LABEL = 104; // pixels, below the label of the hatching
const TOOTH = 6; // pixels: the height of a tooth of a break's zigzag lines
const LEAN = 3; // pixels: how far a tooth leans to each side
const BREAK_WIDTH = 6; // pixels between the two lines

// `breaks` are [{at, from, to, label}]. Time was cut at `at`, and the empty buckets beside it are from `from` to `to`; these are
// logical indexes, each the left edge of a bar.
export class Breaks {
  constructor() {
    this.breaks = [];
    this.colours = null;
  }

  attached({ chart, requestUpdate }) {
    this.chart = chart;
    this.requestUpdate = requestUpdate;
  }

  set(breaks, colours) {
    this.breaks = breaks;
    this.colours = colours;
    this.requestUpdate?.();
  }

  paneViews() {
    return [{ zOrder: () => 'bottom', renderer: () => ({ draw() {}, drawBackground: (target) => target.useBitmapCoordinateSpace((scope) => this.#draw(scope)) }) }];
  }

  #draw({ context, bitmapSize: { width, height }, horizontalPixelRatio: ratio }) {
    const scale = this.chart.timeScale();
    for (const { at, from, to, label } of this.breaks) {
      const [x, left, right] = [at, from, to].map((each) => edge(scale, each) * ratio);
      if (right < 0 || left > width || right - left < 4 * BREAK_WIDTH * ratio) continue;
      const sides = [-1, 1].map((side) => zigzag(x + side * BREAK_WIDTH * ratio / 2, height, ratio));
      context.save();
      context.fillStyle = this.colours.paper;
      context.fillRect(x - BREAK_WIDTH * ratio / 2, BREAK_TOP * ratio, BREAK_WIDTH * ratio, height);
      context.strokeStyle = this.colours.soft;
      context.lineWidth = ratio;
      for (const side of sides) context.stroke(side);
      writeLabel(context, this.colours, { label, x, y: BREAK_LABEL * ratio, room: right - left }, ratio);
      context.restore();
    }
  }
}

function zigzag(x, height, ratio) {
  const line = new Path2D();
  for (let y = BREAK_TOP * ratio, side = -1; y <= height + TOOTH * ratio; y += TOOTH * ratio, side = -side) line.lineTo(x + side * LEAN * ratio, y);
  return line;
}

// The x coordinate of a bar's left edge, which is half a bar left of its middle.
const edge = (scale, at) => scale.logicalToCoordinate(0) + (at - 0.5) * scale.options().barSpacing;

// Paints a band behind each corrected candle. The band fades once.
export class Corrections {
  constructor() {
    this.correctedAt = new Map(); // the time of the last correction, by the candle's logical index
  }

  attached({ chart, requestUpdate }) {
    this.chart = chart;
    this.requestUpdate = requestUpdate;
  }

  add(indexes, colour) {
    this.colour = colour;
    for (const index of indexes) this.correctedAt.set(index, performance.now());
    this.#fade();
  }

  clear() { this.correctedAt.clear(); }

  #fade() {
    for (const [index, time] of this.correctedAt) if (performance.now() - time > FADE_MS) this.correctedAt.delete(index);
    this.requestUpdate?.();
    if (!this.correctedAt.size) return;
    if (NO_MOTION.matches) setTimeout(() => this.#fade(), FADE_MS + 50);
    else requestAnimationFrame(() => this.#fade());
  }

  paneViews() {
    return [{ zOrder: () => 'bottom', renderer: () => ({ draw() {}, drawBackground: (target) => target.useBitmapCoordinateSpace((scope) => this.#draw(scope)) }) }];
  }

  #draw({ context, bitmapSize, horizontalPixelRatio: ratio }) {
    const scale = this.chart.timeScale();
    const minSpread = 6; // pixels, so that a thin bar is visible
    for (const [index, time] of this.correctedAt) {
      const age = Math.min((performance.now() - time) / FADE_MS, 1);
      const spread = Math.max(scale.options().barSpacing, minSpread);
      const middle = edge(scale, index + 0.5);
      context.globalAlpha = NO_MOTION.matches ? 0.3 : 0.5 * (1 - age);
      context.fillStyle = this.colour;
      context.fillRect((middle - spread / 2) * ratio, 0, spread * ratio, bitmapSize.height);
    }
    context.globalAlpha = 1;
  }
}
