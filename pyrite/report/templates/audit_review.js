// What was decided, what is left, and how that is kept. Nothing here knows the page.

// A decision is one number: these, or RELABEL + the class.
const [UNDECIDED, KEEP, DROP, UNSURE, RELABEL] = [0, 1, 2, 3, 4];
const NAMES = ["", "keep", "drop", "unsure"];
const STEPS = 200; // that can be undone
const CHECK = 30; // decisions from which on the audit's interval does not count, and a random check overrules it
const NEXT = 50; // labels, of which the page says what they are expected to hold

/**
 * The noise rate after `counted` decisions. As long as the interval of the audit contains the estimate, it limits that of
 * the review, with each decision less. A random check of enough labels overrules the audit.
 */
function limited({ value, low, high }, limits, counted, check) {
  const [least, most] = limits || [0, 1];
  const trust = Math.max(1 - counted / CHECK, 0);
  const [lowest, highest] = [trust * least, 1 - trust * (1 - most)];
  const ends = [lowest <= value ? Math.max(low, lowest) : low, highest >= value ? Math.min(high, highest) : high];
  if (check.counted < CHECK) return { value, low: ends[0], high: ends[1] };
  const exact = exactEstimate(check.wrong, check.counted);
  return { value, low: Math.min(ends[0], exact.low), high: Math.max(ends[1], exact.high) };
}

/** The browser's storage, or one that says that it keeps nothing. */
function openStore(key) {
  try {
    localStorage.setItem(key + "-try", "1");
    localStorage.removeItem(key + "-try");
  } catch {
    return { works: false, read: () => null, write: () => false };
  }
  return {
    works: true,
    read: () => localStorage.getItem(key),
    write(text) {
      try {
        localStorage.setItem(key, text);
        return true;
      } catch {
        return false; // full
      }
    },
  };
}

class Review {
  constructor(queue, store) {
    this.queue = queue;
    this.store = store;
    this.saved = store.works;
    this.pair = null;
    this.list = "suspects";
    this.showReviewed = false;
    this.restore();
  }

  /** Begin where the last visit ended. What cannot be understood is passed over. */
  restore() {
    this.codes = new Uint32Array(this.queue.size);
    this.steps = [];
    this.current = 0;
    let held = null;
    try {
      held = JSON.parse(this.store.read());
    } catch {
      // As good as nothing.
    }
    if (!held) this.put(this.queue.decided);
    else {
      this.put(held.codes || []);
      this.steps = Array.isArray(held.steps) ? held.steps.filter((step) => Array.isArray(step?.before)) : [];
      this.current = Number.isInteger(held.current) ? held.current : 0;
      this.list = Object.hasOwn(this.queue.lists, held.list) ? held.list : "suspects";
    }
    this.settle();
  }

  save() {
    const codes = [];
    this.codes.forEach((code, item) => code && codes.push(item, code));
    const { steps, current, list } = this;
    // Where there is no room for what can be undone, decisions alone are kept.
    this.saved =
      this.store.write(JSON.stringify({ codes, steps, current, list })) ||
      this.store.write(JSON.stringify({ codes, current, list }));
  }

  /** Set decisions from a flat list of samples and codes. */
  put(flat) {
    for (let k = 0; k + 1 < flat.length; k += 2) {
      const [item, code] = [flat[k], flat[k + 1]];
      if (item >= 0 && item < this.codes.length && code >= 0 && code < RELABEL + this.queue.classes.length) {
        this.codes[item] = code;
      }
    }
  }

  inFilter(item) {
    return !this.pair || (this.queue.suggested(item) === this.pair[0] && this.queue.given[item] === this.pair[1]);
  }

  /** The samples that are shown, in order. */
  listed() {
    const items = this.queue.lists[this.list];
    return items.filter((item) => this.inFilter(item) && (this.showReviewed || !this.codes[item]));
  }

  /** The first sample that is shown after another one in the order of the list, or none. */
  after(item) {
    const items = this.queue.lists[this.list];
    const shown = new Set(this.shown);
    return items.slice(items.indexOf(item) + 1).find((other) => shown.has(other));
  }

  /** See that the current sample is one that is shown: itself, the next, or the first; -1 if none is. */
  settle() {
    this.shown = this.listed();
    if (!this.shown.includes(this.current)) this.current = this.after(this.current) ?? this.shown[0] ?? -1;
  }

  move(by) {
    const place = this.shown.indexOf(this.current) + by;
    if (place >= 0 && place < this.shown.length) this.current = this.shown[place];
  }

  /** Decide one sample and go on. */
  decide(code) {
    if (this.current < 0) return;
    const item = this.current;
    this.record([item], () => code);
    this.shown = this.listed();
    this.current = this.after(item) ?? (this.showReviewed ? item : -1);
    this.settle();
    this.save();
  }

  /** Decide all that are shown and not decided yet, in one step; those that `codeOf` has nothing for stay. */
  decideAll(codeOf) {
    const items = this.shown.filter((item) => !this.codes[item] && codeOf(item));
    if (items.length) this.record(items, codeOf);
    this.settle();
    this.save();
    return items.length;
  }

  record(items, codeOf) {
    this.steps.push({ current: this.current, before: items.flatMap((item) => [item, this.codes[item]]) });
    if (this.steps.length > STEPS) this.steps.shift();
    for (const item of items) this.codes[item] = codeOf(item);
  }

  /** Take back the last step, and go to where it was made. */
  undo() {
    const step = this.steps.pop();
    if (!step) return 0;
    this.put(step.before);
    this.current = step.current;
    if (!this.inFilter(this.current)) this.pair = null;
    if (!this.queue.lists[this.list].includes(this.current)) this.list = "suspects";
    this.settle();
    this.save();
    return step.before.length / 2;
  }

  /** Show only samples of one suggested and given class; the same again shows all. */
  filter(pair) {
    this.pair = pair && this.pair && this.pair.join() === pair.join() ? null : pair;
    this.list = "suspects";
    this.current = this.pair ? -1 : this.current;
    this.settle();
  }

  /** Go through another list: the suspects, the random check, or the samples of no class. */
  open(list) {
    this.pair = null;
    this.list = list;
    this.current = -1;
    this.settle();
  }

  /** Of those decided, how many were wrong, and how many the audit expected. Who is unsure does not count. */
  measure() {
    const found = { decided: 0, counted: 0, wrong: 0, expected: 0 };
    this.codes.forEach((code, item) => {
      if (!code) return;
      found.decided += 1;
      if (code === UNSURE) return;
      found.counted += 1;
      found.wrong += code === KEEP ? 0 : 1;
      found.expected += expit(this.queue.estimate.claimed[item]);
    });
    return found;
  }

  /** Of a sample: 1 if its label was found to be wrong, 0 if right, -1 if it is not reviewed or the reviewer unsure. */
  verdict(item) {
    const code = this.codes[item];
    return !code || code === UNSURE ? -1 : code === KEEP ? 0 : 1;
  }

  /**
   * What the decisions say of all labels: the noise rate, the precision of the suspects, and what the next ones hold.
   * pyrite/auditing/review.py has the same.
   */
  estimates() {
    const { estimate, lists } = this.queue;
    const zeros = () => estimate.size.map(() => 0);
    const [reviewed, wrong, seen, seenSuspects] = [zeros(), zeros(), zeros(), zeros()];
    let [known, knownSuspects] = [0, 0];
    this.codes.forEach((_, item) => {
      const [verdict, stratum] = [this.verdict(item), estimate.stratum[item]];
      if (verdict < 0) return;
      reviewed[stratum] += estimate.speaks[item];
      wrong[stratum] += estimate.speaks[item] * verdict;
      seen[stratum] += 1;
      seenSuspects[stratum] += estimate.suspect[item];
      known += verdict;
      knownSuspects += estimate.suspect[item] * verdict;
    });
    const fit = new Recalibration(estimate, reviewed, wrong);
    const left = (sizes, done) => sizes.map((size, k) => size - done[k]);
    const suspects = estimate.suspects.reduce((sum, size) => sum + size, 0);
    const next = lists.suspects.filter((item) => !this.codes[item]).slice(0, NEXT);
    const ahead = zeros();
    for (const item of next) ahead[estimate.stratum[item]] += 1;
    const counted = seen.reduce((sum, size) => sum + size, 0);
    const all = fit.estimate(left(estimate.size, seen), known, estimate.total);
    const rate = limited(all, estimate.limits, counted, this.randomCheck());
    const unseen = (fraction) => Math.max(fraction * estimate.total - known, 0);
    return {
      rate,
      precision: suspects ? fit.estimate(left(estimate.suspects, seenSuspects), knownSuspects, suspects) : null,
      next: next.length ? fit.estimate(ahead, 0, 1) : null,
      nextCount: next.length,
      left: { value: unseen(rate.value), low: unseen(rate.low), high: unseen(rate.high) },
    };
  }

  /** The random check so far. It ends at the first label that was not looked at: later ones may be known as suspects. */
  randomCheck() {
    const items = this.queue.lists.random;
    const end = items.findIndex((item) => !this.codes[item]);
    const counted = (end < 0 ? items : items.slice(0, end)).map((item) => this.verdict(item)).filter((found) => found >= 0);
    const wrong = counted.filter((found) => found).length;
    return { of: items.length, seen: end < 0 ? items.length : end, counted: counted.length, wrong };
  }

  /** Decisions as a table that a spreadsheet and `pyrite train --corrections` read (RFC 4180). */
  csv() {
    const { queue } = this;
    const lines = [["index", "path", "old", "new", "score", "decision"]];
    this.codes.forEach((code, item) => {
      if (!code) return;
      const old = queue.classes[queue.given[item]];
      const fresh = code >= RELABEL ? queue.classes[code - RELABEL] : code === KEEP ? old : "";
      const score = Number(queue.doubt(item).toPrecision(6));
      lines.push([queue.index[item], queue.path(item), old, fresh, score, NAMES[code] || "relabel"]);
    });
    return lines.map((line) => line.map(quoted).join(",") + "\r\n").join("");
  }
}

// What a spreadsheet takes for a formula. It gets an apostrophe, which is removed when the file is read back
// (pyrite/data/corrections.py has the same pattern).
const FORMULA = /^'*(?![+-]?\d+(\.\d+)?([eE][+-]?\d+)?$)[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

function quoted(value) {
  const name = String(value);
  const text = typeof value === "string" && FORMULA.test(name) ? "'" + name : name;
  return /[",\r\n]|^\s|\s$/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}
