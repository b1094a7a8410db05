// The latency probe of ?debug=timing. Measures the time from a key to the next frame, and to the painted canvas. If
// several keys share a frame, the time is measured from the first one, so it is never too short.

const MAX_SAMPLES = 500; // the number of kept times for each of the `hops`
const UNANSWERED_MS = 1000; // a key that gets no frame within this time has drawn nothing, so it is not measured
const hops = { 'key to frame': [], 'frame to paint': [], 'key to paint': [] };
const isOn = new URLSearchParams(location.search).get('debug') === 'timing';
let pressed = null;
let arrived = null;
let output = null;

export function key(at) {
  if (isOn && arrived === null && (pressed === null || at - pressed > UNANSWERED_MS)) pressed = at;
}

export function frame(at) {
  if (!isOn || pressed === null || arrived !== null) return;
  arrived = at;
  note('key to frame', at - pressed);
}

// Call this in the animation frame that draws on the canvas. The browser runs the first task after that frame when it has
// painted the frame.
export function painted() {
  if (!isOn || arrived === null) return;
  const [from, at] = [pressed, arrived];
  pressed = arrived = null;
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const now = performance.now();
    note('frame to paint', now - at);
    note('key to paint', now - from);
    show();
  };
  channel.port2.postMessage(null);
}

function note(hop, milliseconds) {
  hops[hop].push(milliseconds);
  if (hops[hop].length > MAX_SAMPLES) hops[hop].shift();
}

export function figures() {
  return Object.fromEntries(Object.entries(hops).map(([hop, values]) => {
    const sorted = [...values].sort((a, b) => a - b);
    const rank = (share) => Math.min(sorted.length - 1, Math.floor(share * sorted.length));
    const at = (share) => (sorted.length ? Number(sorted[rank(share)].toFixed(1)) : null);
    return [hop, { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) }];
  }));
}

function show() {
  if (!output) {
    output = document.body.appendChild(document.createElement('output'));
    output.className = 'timing';
  }
  const line = ([hop, { count, p50, p95, p99 }]) => `${hop}: p50 ${p50}  p95 ${p95}  p99 ${p99} ms (${count})`;
  output.textContent = Object.entries(figures()).map(line).join('\n');
}

if (isOn) globalThis.cardTiming = figures;
