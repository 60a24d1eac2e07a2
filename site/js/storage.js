// What the reader chose, kept in this browser; a browser that keeps nothing is no error.

const PREFIX = "kvproof.";

/**
 * @param {string} name
 * @returns {string | null}
 */
export function kept(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
export function keep(name, value) {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // The choice then holds for this page only.
  }
}
