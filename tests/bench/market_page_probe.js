// What the bench of the chart measures inside a tab, beside page_probe.js. Times are milliseconds of performance.now().

globalThis.chartProbe = (() => {
  const context = CanvasRenderingContext2D.prototype;
  const { fillRect } = context;
  const canvas = document.createElement('canvas').getContext('2d');

  // Colours of final candles, as a canvas gives them back.
  function candleColours() {
    const sample = document.createElement('i');
    document.body.append(sample);
    const found = ['up', 'down'].map((name) => {
      sample.style.color = `var(--${name})`;
      canvas.fillStyle = getComputedStyle(sample).color;
      return canvas.fillStyle;
    });
    sample.remove();
    return found;
  }

  // `chartProbe.result` resolves when a frame with a candle is painted while `holds()` is true.
  function armCandles(holds = () => true) {
    let colours = null;
    chartProbe.result = new Promise((done) => {
      context.fillRect = function probed(...place) {
        fillRect.apply(this, place);
        if (!this.canvas.isConnected || !this.canvas.closest('#chart td:nth-child(2)') || !holds()) return;
        colours ??= candleColours();
        if (!colours.includes(this.fillStyle)) return;
        context.fillRect = fillRect;
        probe.painted(done);
      };
    });
  }

  // The same for the candles of another interval, from the click that chooses it.
  async function armInterval(interval) {
    const feed = await import('/static/feed.js');
    chartProbe.clicked = new Promise((done) => {
      addEventListener('click', ({ timeStamp }) => done(timeStamp), { capture: true, once: true });
    });
    armCandles(() => feed.candles().interval === interval);
  }

  // The duration from the next key to the paint of the chart that it moves.
  function armKey() {
    let pressed = null;
    addEventListener('keydown', ({ timeStamp }) => { pressed = timeStamp; }, { capture: true, once: true });
    chartProbe.result = new Promise((done) => {
      context.fillRect = function probed(...place) {
        fillRect.apply(this, place);
        if (pressed === null || !this.canvas.isConnected || !this.canvas.closest('#chart td:nth-child(2)')) return;
        context.fillRect = fillRect;
        probe.painted((at) => done(at - pressed));
      };
    });
  }

  const tookFromClick = async () => await chartProbe.result - await chartProbe.clicked;

  // How many candles are kept, and from when to when the chart shows them.
  async function view() {
    const [feed, chart] = await Promise.all(['feed', 'chart'].map((name) => import(`/static/${name}.js`)));
    return { kept: feed.candles()?.rows.length ?? 0, hasOlder: feed.candles()?.hasOlder ?? true, ...chart.view() };
  }

  return { armCandles, armInterval, armKey, tookFromClick, view };
})();
chartProbe.armCandles();
