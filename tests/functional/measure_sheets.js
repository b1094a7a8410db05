// Where a browser has put the sheets, their parts and every piece of text; lengths in millimetres of the paper.
(width) => {
  const sheets = [...document.querySelectorAll(".sheet")];
  const unit = sheets[0].getBoundingClientRect().width / width;

  const placed = (rect, origin) => [
    (rect.left - origin.left) / unit, (rect.top - origin.top) / unit, rect.width / unit, rect.height / unit,
  ];

  // How far the rectangle reaches out of its frame: the largest value of the four sides.
  const beyond = (inner, outer) => Math.max(
    outer.left - inner.left, outer.top - inner.top, inner.right - outer.right, inner.bottom - outer.bottom,
  ) / unit;

  // A text's rectangle has the height of the font's tallest glyphs, which is more than a line's. Here letters count as
  // one em.
  const letters = (rect, em) => {
    const middle = (rect.top + rect.bottom) / 2, half = Math.min(em, rect.height) / 2;
    return { left: rect.left, right: rect.right, top: middle - half, bottom: middle + half };
  };

  // Each word is measured by itself. A blank at the end of a line of code may reach out of the frame, because it is
  // invisible.
  const texts = function* (element) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode, parent = text.parentElement;
      if (!text.data.trim() || parent.closest("title, desc, .unseen")) continue;
      const range = document.createRange();
      const em = parent instanceof SVGElement ? 0 : parseFloat(getComputedStyle(parent).fontSize);
      for (const word of text.data.matchAll(/\S+/g)) {
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        for (const rect of range.getClientRects()) yield [text.data, em ? letters(rect, em) : rect];
      }
    }
  };

  const part = (element, origin) => {
    const outer = element.getBoundingClientRect();
    const found = { kind: element.classList[1], box: placed(outer, origin), texts: 0, stray: [], nodes: [] };
    const judge = (name, rect) => {
      const distance = beyond(rect, outer);
      if (distance > 0.1) found.stray.push([name.slice(0, 60), distance]);
    };
    for (const [text, rect] of texts(element)) {
      found.texts += 1;
      judge(text, rect);
    }
    for (const drawing of element.querySelectorAll("svg, svg .shape, table, pre, .answer, .tick")) {
      judge(drawing.tagName, drawing.getBoundingClientRect());
    }
    for (const node of element.querySelectorAll("svg.diagram a.node > .shape")) {
      found.nodes.push(placed(node.getBoundingClientRect(), node.ownerSVGElement.getBoundingClientRect()));
    }
    return found;
  };

  // The head or the foot of a sheet, and the texts in it that are cut off.
  const edge = (element, origin) => ({
    box: placed(element.getBoundingClientRect(), origin),
    cut: [...element.children].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent),
  });

  return sheets.map((sheet) => {
    const origin = sheet.getBoundingClientRect();
    return {
      size: [origin.width / unit, origin.height / unit],
      left: origin.left,
      right: document.documentElement.clientWidth - origin.right,
      parts: [...sheet.querySelectorAll(".part")].map((element) => part(element, origin)),
      edges: [...sheet.querySelectorAll(":scope > header, :scope > footer")].map((element) => edge(element, origin)),
    };
  });
}
