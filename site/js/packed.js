// A cell's text as a part of a link: deflated, and written in letters that an address may hold.

/** Older browsers can't, and say so: that is no fault of a link. */
export const canPack = "CompressionStream" in window;
/** Longest code that a link may bring, in characters of the link. */
export const MAX_PACKED = 8192;
/** Longest text that comes out of it: a few kilobytes can unpack to megabytes. */
const MAX_TEXT = 100_000;

/** @param {string} text */
export async function pack(text) {
  const bytes = await through(new Blob([text]), new CompressionStream("deflate-raw"));
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * @param {string} packed
 * @returns {Promise<string>} rejects what `pack` hasn't written, and what is too long
 */
export async function unpack(packed) {
  if (packed.length > MAX_PACKED) {
    throw new Error(`${packed.length} characters of code`);
  }
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const blob = new Blob([Uint8Array.from(binary, (letter) => letter.charCodeAt(0))]);
  const bytes = await through(blob, new DecompressionStream("deflate-raw"));
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  if (text.length > MAX_TEXT) {
    throw new Error(`${text.length} characters of code`);
  }
  return text;
}

/**
 * @param {Blob} blob
 * @param {CompressionStream | DecompressionStream} transform
 */
async function through(blob, transform) {
  const stream = blob.stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
