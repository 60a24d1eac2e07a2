// The page's words: messages of its language, by ID (see site/texts).

/** @type {Record<string, string>} */
const messages = JSON.parse(document.getElementById("site-messages")?.textContent ?? "{}");

/**
 * @param {string} id
 * @param {Record<string, string | number>} [args] what goes into the message's {places}
 */
export function say(id, args = {}) {
  const message = messages[id];
  if (message === undefined) {
    throw new Error(`no message ${id}`);
  }
  return message.replace(/\{(\w+)\}/g, (_, place) => String(args[place]));
}

/** @param {string[]} sentences of one paragraph */
export function paragraph(sentences) {
  return sentences.join(messages["sentence-gap"]);
}
