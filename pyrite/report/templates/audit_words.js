// Numbers in words.

const count = (number) => number.toLocaleString("en");

/** A fraction in per cent; what rounds to none or to all is not said to be that. */
function percent(fraction) {
  if (fraction > 0.9995 && fraction < 1) return "> 99.9 %";
  if (fraction > 0 && fraction < 0.0005) return "< 0.1 %";
  return (100 * fraction).toFixed(fraction > 0.99 || fraction < 0.1 ? 1 : 0) + " %";
}

const exact = (fraction) => (100 * fraction).toFixed(1) + " %";
const ends = ({ low, high }) => `${(100 * low).toFixed(1)} to ${exact(high)}`;
const interval = (estimate) => `${exact(estimate.value)} (${ends(estimate)})`;
const range = ({ value, low, high }) => `${count(Math.round(value))} (${count(Math.round(low))} to ${count(Math.round(high))})`;
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const short = (value, digits = 4) =>
  Number.isFinite(value) ? String(Number(value.toPrecision(digits))) : "not known";

/** Numbers that are read beside each other, with as many digits as it takes to tell them apart. */
function comparable(values) {
  const known = values.filter(Number.isFinite);
  const range = Math.max(...known) - Math.min(...known);
  const largest = Math.max(...known.map(Math.abs));
  const digits = range > 0 ? 4 + Math.max(0, Math.ceil(Math.log10(largest / range))) : 9;
  return values.map((value) => short(value, Math.min(15, digits)));
}
