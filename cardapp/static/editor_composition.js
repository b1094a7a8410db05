// What an input method or a dead key composes: seen at the cursor while it grows, typed once when it is committed.

// `take` gets each committed text. The field is empty between two of them.
export function bindComposition(field, take) {
  const end = (text) => {
    field.value = '';
    field.classList.remove('composing');
    field.style.width = '';
    if (text) take(text);
  };
  field.addEventListener('compositionstart', () => field.classList.add('composing'));
  field.addEventListener('compositionend', (event) => end(event.data));
  field.addEventListener('input', (event) => {
    if (!event.isComposing) {
      end(field.value);
      return;
    }
    field.style.width = '';
    field.style.width = `${field.scrollWidth}px`;
  });
}
