// The page as the browser has parsed it. Each element is [name, {attribute: value}, [its children]].
() => {
  const read = (element) => [
    element.localName.toLowerCase(),
    Object.fromEntries([...element.attributes].map((one) => [one.name.toLowerCase(), one.value])),
    [...element.childNodes].map((node) => (node instanceof Element ? read(node) : node.data)),
  ];
  return read(document.documentElement);
}
