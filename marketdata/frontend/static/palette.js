// Reads the colours of the chart's canvas from the style sheet, for the current theme, dark or light.

const probe = document.createElement('span');
probe.hidden = true;
const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });

// A custom property of the style sheet as `rgba(…)`, the only form that the chart library reads.
function colour(name, alpha = 1) {
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = found;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

export function palette() {
  return {
    paper: colour('paper'), ink: colour('ink'), soft: colour('ink-soft'), rule: colour('rule'), grid: colour('rule', 0.35),
    accent: colour('accent'), areaTop: colour('accent', 0.4), areaBottom: colour('accent', 0.04), areaOpen: colour('accent', 0.18), lineOpen: colour('accent', 0.55), current: colour('current'), hatch: colour('ink-soft', 0.3), failed: colour('bad', 0.4),
    up: colour('up'), upOpen: colour('up', 0.45), down: colour('down'), downOpen: colour('down', 0.45),
    upVolume: colour('up-volume'), upVolumeOpen: colour('up-volume', 0.55), downVolume: colour('down-volume'), downVolumeOpen: colour('down-volume', 0.55),
    same: colour('same'), sameOpen: colour('same', 0.45), sameVolume: colour('same-volume'), sameVolumeOpen: colour('same-volume', 0.55),
    line1: colour('line-1'), line2: colour('line-2'), line3: colour('line-3'), line4: colour('line-4'),
    sans: getComputedStyle(document.body).fontFamily,
  };
}
