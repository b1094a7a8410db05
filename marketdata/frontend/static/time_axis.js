// Converts between times and positions on the chart's axis. `slots` are the opening times of its buckets, ascending, each
// `length` ms long. A position is the index of a slot, with a fraction between slots and beyond the ends.

// The index of the first slot at or after a time.
export function indexOf(slots, time) {
  let [low, high] = [0, slots.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slots[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function timeAt(slots, length, position) {
  const last = slots.length - 1;
  if (position < 0) return slots[0] + position * length;
  if (position >= last) return slots[last] + (position - last) * length;
  const at = Math.floor(position);
  return slots[at] + (position - at) * (slots[at + 1] - slots[at]);
}

export function positionOf(slots, length, time) {
  const last = slots.length - 1;
  if (time <= slots[0]) return (time - slots[0]) / length;
  if (time >= slots[last]) return last + (time - slots[last]) / length;
  const at = indexOf(slots, time);
  return slots[at] === time ? at : at - 1 + (time - slots[at - 1]) / (slots[at] - slots[at - 1]);
}

// The indexes of the slots before which time was cut. Months differ in length, so a step that is a little longer than
// `length` is not a cut.
export function cuts(slots, length) {
  const found = [];
  for (let at = 1; at < slots.length; at += 1) if (slots[at] - slots[at - 1] > 1.5 * length) found.push(at);
  return found;
}

// A length of time in the greatest unit of which it has two or more: `18 days`.
export function inWords(milliseconds) {
  const units = [['day', 86_400_000], ['hour', 3_600_000], ['minute', 60_000], ['second', 1000]];
  const [unit, length] = units.find((each) => milliseconds >= 2 * each[1]) ?? units.at(-1);
  return `${Math.round(milliseconds / length)} ${unit}s`;
}
