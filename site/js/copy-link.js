// The quiet buttons below each lab and in the cells' bar: a link to what is shown there, and the code
// that shows the lab in another page.

import { paragraph, say } from "./words.js";

/** What stands around a lab that is alone, and its line about Python, which few have on the page. */
const AROUND_PX = 180;
const COPIED = { link: "link.copied", embed: "embed.copied" };

/**
 * @param {import("./address.js").Address} address
 * @param {(lab: string) => string} embedded address of a lab alone
 */
export function startCopyLinks(address, embedded) {
  for (const line of /** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll("[data-links]")
  )) {
    const { links: section = "" } = line.dataset;
    const [link, embed] = line.querySelectorAll("button");
    line.hidden = false;
    link.addEventListener("click", () => {
      offer(
        line,
        "link",
        address.link(section).then(({ url, leftOut }) => [url.href, leftOut]),
      );
    });
    embed?.addEventListener("click", () => {
      const url = new URL(embedded(section.replace(/-lab$/, "")));
      url.search = location.search;
      offer(line, "embed", Promise.resolve([iframe(url.href, line), ""]));
    });
  }
}

/**
 * @param {string} url
 * @param {HTMLElement} line in the lab, which is as high as its frame must be
 */
function iframe(url, line) {
  const lab = /** @type {HTMLElement} */ (line.closest("[data-lab]"));
  const title = say("embed.title", { title: lab.querySelector("h2, h3")?.textContent ?? "" });
  const frame = document.createElement("iframe");
  const height = `${lab.offsetHeight + AROUND_PX}`;
  Object.assign(frame, { src: url, title, width: "100%", height, loading: "lazy" });
  return frame.outerHTML;
}

/**
 * Copies a text, or shows it where it can't.
 *
 * @param {HTMLElement} line
 * @param {"link" | "embed"} kind
 * @param {Promise<string[]>} text and what isn't in it, "" if all is
 */
async function offer(line, kind, text) {
  const copied = await copy(text.then(([known]) => known)).then(
    () => true,
    () => false, // not permitted
  );
  const [known, leftOut] = await text;
  const sentences = [say(copied ? COPIED[kind] : "link.select"), ...(leftOut ? [leftOut] : [])];
  const said = /** @type {HTMLElement} */ (line.querySelector("[role=status]"));
  said.replaceChildren(paragraph(sentences), ...(copied ? [] : [selected(known)]));
}

/** @param {Promise<string>} text */
async function copy(text) {
  if (window.ClipboardItem) {
    // Safari wants the copying to begin with the click; the text may follow.
    const blob = text.then((known) => new Blob([known], { type: "text/plain" }));
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } else {
    await navigator.clipboard.writeText(await text);
  }
}

/** @param {string} text */
function selected(text) {
  const field = document.createElement("input");
  field.readOnly = true;
  field.value = text;
  field.ariaLabel = say("link.copy");
  requestAnimationFrame(() => field.select());
  return field;
}
