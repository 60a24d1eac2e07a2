// How a download's progress is told.

/**
 * @param {{loaded: number, total: number}} progress in bytes
 * @returns {string} such as "3.1 of 9.6 MB"
 */
export function sizeOf({ loaded, total }) {
  /** @param {number} bytes */
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  return `${megabytes(loaded)} of ${megabytes(total)} MB`;
}
