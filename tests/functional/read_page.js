// The page as the browser has read it: each element as [name, {attribute: value}, [what is in it]].
() => {
  const read = (element) => [
    element.localName.toLowerCase(),
    Object.fromEntries([...element.attributes].map((one) => [one.name.toLowerCase(), one.value])),
    [...element.childNodes].map((node) => (node instanceof Element ? read(node) : node.data)),
  ];
  return read(document.documentElement);
}
