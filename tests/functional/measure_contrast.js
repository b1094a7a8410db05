// Each pair of a text's colour and its background's colour, once: [[red, green, blue], [red, green, blue], a text].
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const pixels = new Map();
  const painted = (color) => {
    if (!pixels.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      pixels.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return pixels.get(color);
  };

  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = painted(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };

  // In a drawing, the background is the last shape before the text that lies under the text's centre.
  const under = (text) => {
    const box = text.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    let found = null;
    for (const shape of text.ownerSVGElement.querySelectorAll("rect, circle, polygon")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const place = shape.getBoundingClientRect(), fill = getComputedStyle(shape).fill;
      if (fill !== "none" && place.left <= x && x <= place.right && place.top <= y && y <= place.bottom) found = fill;
    }
    return found === null ? behind(text.ownerSVGElement) : painted(found);
  };

  const pairs = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, parent = text.parentElement;
    if (!text.data.trim() || parent.closest("title, desc, .unseen")) continue;
    const drawn = parent instanceof SVGElement, style = getComputedStyle(parent);
    const front = painted(drawn ? style.fill : style.color), back = drawn ? under(parent) : behind(parent);
    pairs.set(`${front} on ${back}`, [front.slice(0, 3), back.slice(0, 3), text.data.slice(0, 60)]);
  }
  return [...pairs.values()];
}
