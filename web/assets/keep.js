// What the reader chose, kept in this browser. Storage can be forbidden or full; then the choice lasts as long as the page.

export function kept(name) {
  try {
    return localStorage.getItem(`sealane.${name}`);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`sealane.${name}`, value);
  } catch {
    // The choice holds until the page is left.
  }
}
