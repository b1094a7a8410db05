// Draws the marks of a price axis: the labels on the axis, and the lines of the grid. See price_scale.js for the reason.

const TEXT_LEFT = 11; // pixels, where the library writes its labels

// A primitive of a series, whose axis gets the marks of the PriceScale `scale`. `onPaint` is called when the axis is painted.
export class AxisMarks {
  constructor(scale, onPaint = () => {}) {
    this.scale = scale;
    this.onPaint = onPaint;
    this.colours = null;
    this.grid = [view((context, size, ratio) => this.#drawGrid(context, size, ratio))];
    this.labels = [view((context, size, ratio) => this.#drawLabels(context, size, ratio))];
  }

  attached({ series, requestUpdate }) {
    this.series = series;
    this.requestUpdate = requestUpdate;
  }

  set(colours) {
    this.colours = colours;
    this.requestUpdate?.();
  }

  paneViews() { return this.grid; }

  priceAxisPaneViews() { return this.labels; }

  // The marks as [{y, text}] on an axis of that height.
  #marks(height) {
    const ends = [this.series.coordinateToPrice(0), this.series.coordinateToPrice(height)];
    if (ends.includes(null)) return [];
    const marks = this.scale.marks(Math.min(...ends), Math.max(...ends), height);
    return marks.map(({ at, text }) => ({ y: this.series.priceToCoordinate(at), text }));
  }

  #drawGrid(context, { width, height }, ratio) {
    context.strokeStyle = this.colours.grid;
    context.lineWidth = Math.max(Math.floor(ratio), 1);
    const middle = (context.lineWidth % 2) / 2; // so that a line covers whole pixels
    context.beginPath();
    for (const { y } of this.#marks(height / ratio)) {
      context.moveTo(0, Math.round(y * ratio) + middle);
      context.lineTo(width, Math.round(y * ratio) + middle);
    }
    context.stroke();
  }

  #drawLabels(context, { height }, ratio) {
    this.onPaint();
    const size = 12 * ratio;
    context.font = `${size}px ${this.colours.sans}`;
    context.fillStyle = this.colours.soft;
    context.textBaseline = 'middle';
    for (const { y, text } of this.#marks(height / ratio)) {
      if (y * ratio > size / 2 && y * ratio < height - size / 2) context.fillText(text, TEXT_LEFT * ratio, Math.round(y * ratio));
    }
  }
}

// A view that draws behind the series, with the pixels of the bitmap.
const view = (draw) => ({
  zOrder: () => 'bottom',
  renderer: () => ({ draw() {}, drawBackground: (target) => target.useBitmapCoordinateSpace(({ context, bitmapSize, horizontalPixelRatio }) => {
    context.save();
    draw(context, bitmapSize, horizontalPixelRatio);
    context.restore();
  }) }),
});
