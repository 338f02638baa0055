// Copying to the clipboard. Browsers refuse it in some places; then the text is selected, so that the reader's own Ctrl+C
// takes it.
import { byId } from './dom.js';

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function startCopying() {
  document.addEventListener('click', async (event) => {
    const button = event.target.closest?.('button[data-copy]');
    if (!button) return;
    const done = await copy(button.dataset.copy);
    if (!done) getSelection().selectAllChildren(button.previousElementSibling);
    const word = done ? 'Copied' : 'Ctrl+C';
    button.textContent = word;
    byId('announce').textContent = done ? 'Copied.' : 'Copying is not possible here. The text is selected: press Ctrl and C.';
    setTimeout(() => {
      if (button.textContent === word) button.textContent = 'Copy';
    }, 1600);
  });
}
