// Texts that were typed and not sent yet. They outlast a reload, a turn of the page and a change of the card's files.

const drafts = new Map(JSON.parse(sessionStorage.getItem('drafts') || '[]')); // name -> text

const store = () => sessionStorage.setItem('drafts', JSON.stringify([...drafts]));

// Show the draft `name` in a field, if there is one, and keep what is typed there as this draft.
export function keepDraft(field, name) {
  if (drafts.has(name)) field.value = drafts.get(name);
  field.addEventListener('input', () => {
    drafts.set(name, field.value);
    store();
  });
}

export function dropDraft(name) {
  drafts.delete(name);
  store();
}
