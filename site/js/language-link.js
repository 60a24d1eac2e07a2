// A link to the page in another language leads to the same place and state.

/**
 * @param {HTMLAnchorElement} link
 * @param {() => {search: string, hash: string}} place asked at the last moment
 */
export function leadTo(link, place) {
  const address = link.href.split(/[?#]/)[0]; // without what an earlier call has put there
  const follow = () => {
    const { search, hash } = place();
    link.href = address + search + hash;
  };
  for (const event of ["pointerenter", "focus", "click"]) {
    link.addEventListener(event, follow);
  }
}
