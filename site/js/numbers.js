// How numbers are written: as kvlab.formats does it in Python.

const SMALLEST_POWER = -3;
const LARGEST_POWER = 8;

/**
 * 145,280; 0.699; 9.5 × 10⁻⁷; ∞.
 *
 * @param {number} value an integer is written in full
 */
export function number(value) {
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  }
  if (value === 0) {
    return "0"; // -0 as well
  }
  if (Number.isInteger(value)) {
    return value.toLocaleString("en");
  }
  const exponent = Number(value.toExponential(2).split("e")[1]);
  if (exponent >= SMALLEST_POWER && exponent <= LARGEST_POWER) {
    const digits = Math.max(0, 2 - exponent);
    return value.toLocaleString("en", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
      roundingMode: "halfEven", // as Python does
    });
  }
  const [mantissa, power] = value.toExponential(1).split("e");
  return `${mantissa}\u00a0×\u00a010${superscript(Number(power))}`;
}

/** @param {number} power */
function superscript(power) {
  return [...String(power)].map((digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]).join("");
}
