// What the benches of the page measure inside a tab, loaded before the tab's own scripts. Times are milliseconds.
// `painted` is the time of the first task after the frame that shows a change.

const REPEAT_MS = 4; // quicker than any keyboard

globalThis.probe = (() => {
  let inFrame = false;
  const animationFrame = globalThis.requestAnimationFrame.bind(globalThis);

  globalThis.requestAnimationFrame = (callback) => animationFrame((at) => {
    inFrame = true;
    try {
      callback(at);
    } finally {
      inFrame = false;
    }
  });

  function afterTask(done) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done(performance.now());
    port2.postMessage(null);
  }

  // A change made inside a frame's callbacks is painted by that frame, any other one by the next.
  function painted(done) {
    if (inFrame) afterTask(done);
    else animationFrame(() => afterTask(done));
  }

  // -- a key of the editor -------------------------------------------------------------------------------------------

  let wanted = null; // { pressed, text, key, frame, drawn, done } of the key that is under way

  // Wait for the key `pressed`, for the message that holds it, and for a drawn line that holds `text`.
  function arm(pressed, text) {
    probe.result = new Promise((done) => { wanted = { pressed, text, key: null, frame: null, drawn: false, done }; });
  }

  addEventListener('keydown', ({ key }) => { if (wanted?.key === null && key === wanted.pressed) wanted.key = performance.now(); }, true);

  function received({ data }) {
    if (!wanted?.key || wanted.frame !== null) return;
    const { pressed } = wanted;
    const holds = typeof data === 'string' ? data.includes(`"${pressed}"`) : new Uint8Array(data).includes(pressed.charCodeAt(0));
    if (holds) wanted.frame = performance.now();
  }

  function drawn(text) {
    countFrame();
    if (!wanted?.key || wanted.drawn || !text.includes(wanted.text)) return;
    const { key, frame, done } = wanted;
    wanted.drawn = true;
    painted((at) => done({ frame: frame - key, painted: at - key }));
  }

  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function probed(text, ...place) {
    fillText.call(this, text, ...place);
    drawn(text);
  };

  globalThis.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', received);
    }
  };

  // -- frames with a drawing in them ----------------------------------------------------------------------------------

  let frames = null; // when each frame with a drawing was painted
  let isFrameOpen = false;

  function countFrame() {
    if (!frames || isFrameOpen) return;
    isFrameOpen = true;
    painted((at) => { isFrameOpen = false; frames.push(at); });
  }

  function countFrames() { frames = []; }

  function hold(key, count) {
    countFrames();
    const letter = key.toUpperCase();
    const repeat = setInterval(() => {
      const event = { key, keyCode: letter.charCodeAt(0), code: `Key${letter}`, ctrlKey: true, repeat: true, bubbles: true, cancelable: true };
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', event));
      count -= 1;
      if (count === 0) clearInterval(repeat);
    }, REPEAT_MS);
  }

  // -- changes of the document ---------------------------------------------------------------------------------------

  // Resolves when the first change after which `holds` is painted, in the time that all tabs share.
  function armChange(holds) {
    probe.result = new Promise((done) => {
      const watch = new MutationObserver(() => {
        if (!holds()) return;
        watch.disconnect();
        painted((at) => done(performance.timeOrigin + at));
      });
      watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    });
  }

  function armKey() {
    addEventListener('keydown', () => { probe.pressed = performance.timeOrigin + performance.now(); }, { capture: true, once: true });
  }

  // Since the navigation: the sheet and the outline are painted, and the long task that this was part of has ended.
  let longTaskEnd = 0;
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) longTaskEnd = Math.max(longTaskEnd, startTime + duration);
  }).observe({ type: 'longtask', buffered: true });

  function interactive() {
    return new Promise((done) => {
      const look = () => {
        const stands = document.getElementById('sheets')?.shadowRoot?.querySelector('.sheet') && document.querySelector('#tree [role=treeitem]');
        if (stands) painted((at) => requestIdleCallback(() => done(Math.max(at, longTaskEnd))));
        else animationFrame(look);
      };
      look();
    });
  }

  return { arm, drawn, hold, countFrames, frames: () => frames, armChange, armKey, interactive, painted };
})();
