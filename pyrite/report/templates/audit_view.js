// How a sample is shown. Names come from files: they are set as text, never as markup.

const AROUND = [4, 24]; // samples in the strip, before and after
const FEATURES = 12; // of a table that are shown at once
const WORTHWHILE = 0.1; // the fraction of wrong labels from which on looking at them pays

const one = (id) => document.getElementById(id);

function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

class View {
  constructor(queue, review) {
    this.queue = queue;
    this.review = review;
    this.fillMenu();
    one("card").classList.toggle("pixels", Boolean(queue.pictures) && queue.pictures.width < 100);
    one("card").classList.toggle("wide", Boolean(queue.table || queue.text));
    one("strip").classList.toggle("words", !queue.pictures);
    one("card").classList.toggle("plain", !queue.pictures && !queue.table && !queue.text);
  }

  /** The menu of all classes, needed where the choices do not show them all. */
  fillMenu() {
    one("menu").hidden = this.queue.width >= this.queue.classes.length;
    const options = this.queue.classes.map((name, label) => {
      const option = element("option", name);
      option.value = label;
      return option;
    });
    options.sort((a, b) => a.textContent.localeCompare(b.textContent, "en", { numeric: true }));
    one("other").append(...options);
  }

  show(said = "") {
    const { current } = this.review;
    const held = this.heldFocus();
    this.showProgress();
    this.showFilter();
    one("status").textContent = said;
    one("card").hidden = current < 0;
    one("done").hidden = current >= 0;
    if (current < 0) this.showDone();
    else this.showCard(current);
    this.showStrip();
    if (held) document.querySelector(held)?.focus({ preventScroll: true });
  }

  /** Choices and strip are made anew: who was in one of them with the keyboard stays there. */
  heldFocus() {
    const button = document.activeElement;
    if (button.closest("#choices")) return `[data-choice="${button.dataset.choice}"]`;
    return button.closest("#strip") ? "#strip [aria-current]" : null;
  }

  showProgress() {
    const { review, queue } = this;
    const found = review.measure();
    const listed = queue.lists[review.list];
    one("progress").max = Math.max(1, listed.length);
    one("progress").value = listed.filter((item) => review.codes[item]).length;
    one("precision").textContent = this.precision(found);
    this.showEstimates(found);
    one("export").disabled = !found.decided;
    one("export").textContent = found.decided ? `Download ${plural(found.decided, "decision")}` : "Download corrections";
    one("undo").disabled = !review.steps.length;
    one("storage").hidden = review.saved;
    one("reviewed").checked = review.showReviewed;
    const left = count(review.shown.filter((item) => !review.codes[item]).length);
    for (const place of document.querySelectorAll(".bulk .left")) place.textContent = left;
  }

  precision(found) {
    if (!found.counted) return `${count(this.queue.lists[this.review.list].length)} to review`;
    const text = `${count(found.wrong)} of ${count(found.counted)} reviewed labels were wrong (${percent(found.wrong / found.counted)})`;
    const unsure = found.decided - found.counted;
    return (
      text +
      (this.queue.canTell ? `; ${count(Math.round(found.expected))} were expected` : "") +
      (unsure ? `; ${count(unsure)} unsure` : "")
    );
  }

  /** What the decisions so far say about all labels. */
  showEstimates(found) {
    const told = this.queue.canTell && found.counted > 0;
    const check = this.review.randomCheck();
    one("estimate").hidden = !told && !check.counted;
    one("by-decisions").hidden = one("ahead").hidden = !told;
    one("check").hidden = !check.counted;
    if (check.counted) one("check").textContent = this.checkWords(check);
    for (const place of document.querySelectorAll("[data-audit]")) place.textContent = place.dataset.audit;
    if (!told) return;
    const { rate, precision, next, nextCount, left } = this.review.estimates();
    const ofSuspects = precision ? `, and ${interval(precision)} of the suspects` : "";
    one("by-decisions").textContent = `${interval(rate)} of all labels are wrong${ofSuspects}, according to the audit and ${plural(found.counted, "decision")}.`;
    one("ahead").textContent = this.aheadWords(next, nextCount, left);
    const decisions = plural(found.counted, "decision");
    one("headline").textContent = `${interval(rate)} of the labels are wrong, according to the audit and ${decisions}.`;
    one("rate-value").textContent = exact(rate.value);
    one("rate-ends").textContent = ends(rate);
    one("rate-words").textContent = `of the labels are wrong, according to the audit and ${decisions}`;
    if (precision && one("precision-value")) {
      one("precision-value").textContent = percent(precision.value);
      one("precision-words").textContent = "of the suspects are expected to be wrong, according to the audit and your decisions";
    }
  }

  aheadWords(next, nextCount, left) {
    const rest = `${range(left)} wrong labels are not reviewed yet.`;
    if (!next) return `All suspects are reviewed. About ${rest}`;
    const some = `Of the next ${plural(nextCount, "suspect")}, about ${range(next)} are expected to be wrong. In total, about ${rest}`;
    return next.value < WORTHWHILE * nextCount ? `${some} Fewer than one in ten of the next suspects is expected to be wrong: a good point to stop.` : some;
  }

  checkWords(check) {
    const estimate = exactEstimate(check.wrong, check.counted);
    const togo = check.of - check.seen;
    const words = `Random check: ${count(check.wrong)} of ${plural(check.counted, "label")} ${check.wrong === 1 ? "is" : "are"} wrong, ${interval(estimate)} of all labels (Clopper–Pearson).`;
    return togo ? `${words} ${count(togo)} remain.` : words;
  }

  showFilter() {
    const { pair, list } = this.review;
    for (const button of document.querySelectorAll("[data-list]")) {
      button.setAttribute("aria-pressed", String(button.dataset.list === list));
    }
    for (const words of document.querySelectorAll("[data-about]")) words.hidden = words.dataset.about !== list;
    one("filter").hidden = !pair;
    if (pair) {
      const [suggested, given] = pair.map((label) => this.queue.classes[label]);
      one("filter").textContent = `${suggested} labelled as ${given} ✕`;
    }
    for (const button of document.querySelectorAll("[data-pair]")) {
      button.setAttribute("aria-pressed", String(Boolean(pair) && button.dataset.pair === pair.join()));
    }
  }

  showDone() {
    const everything = this.queue.lists[this.review.list].every((item) => this.review.codes[item]);
    one("done-words").textContent = everything
      ? "All reviewed. Download the corrections to train with them."
      : "All samples of this filter are reviewed.";
    if (one("next")) one("next").hidden = !everything;
  }

  showCard(item) {
    const { queue, review } = this;
    const code = review.codes[item];
    const place = review.shown.indexOf(item) + 1;
    one("place").textContent = `${count(place)} of ${count(review.shown.length)} · sample ${queue.index[item]}`;
    one("decided").hidden = !code;
    one("decided").textContent = this.decision(code);
    one("given").textContent = queue.classes[queue.given[item]];
    const same = queue.suggested(item) === queue.given[item];
    one("suggests").textContent = same ? "looks most like" : "looks like";
    one("suggested").textContent = queue.classes[queue.suggested(item)];
    one("probability").textContent = queue.canTell
      ? `probability that the label is wrong: ${percent(Math.min(queue.doubt(item), 1 - 1e-9))}`
      : `score ${short(queue.doubt(item))}; higher scores are less plausible`;
    one("path").textContent = queue.path(item);
    one("said").hidden = !queue.said.length;
    one("said").textContent = queue.said.length ? `labels: ${queue.said[item]}` : "";
    one("other").value = "";
    this.showActions(item);
    this.showChoices(item);
    this.showEvidence(item);
    this.showSample(item);
  }

  decision(code) {
    return code >= RELABEL ? `now ${this.queue.classes[code - RELABEL]}` : ["", "kept", "dropped", "unsure"][code];
  }

  showActions(item) {
    const fresh = this.queue.replacement(item);
    const relabel = document.querySelector("[data-do=relabel]");
    relabel.disabled = fresh < 0;
    relabel.title = fresh < 0 ? "" : `Relabel as ${this.queue.classes[fresh]}`;
    document.querySelector("[data-do=keep]").title = `Keep ${this.queue.classes[this.queue.given[item]]}`;
  }

  showChoices(item) {
    const rows = this.queue.choicesOf(item).map((choice, k) => {
      const button = element("button");
      button.type = "button";
      button.dataset.choice = k;
      const bar = element("span", "", "fill");
      bar.style.width = `${100 * (choice.likelihood || 0)}%`;
      const given = choice.label === this.queue.given[item];
      button.append(
        bar,
        element("kbd", this.queue.keyOf(choice, k)),
        element("span", this.queue.classes[choice.label], "name"),
        element("span", given ? "given" : "", "tag"),
        element("span", Number.isFinite(choice.likelihood) ? percent(choice.likelihood) : "", "share"),
      );
      const row = element("li");
      row.append(button);
      return row;
    });
    one("choices").replaceChildren(...rows);
  }

  showEvidence(item) {
    one("why").hidden = !this.queue.evidence.length;
    const parts = this.queue.evidence.flatMap((kind) => {
      const rank = kind.ranks[item];
      const words = element("dd", short(kind.values[item]));
      const where = rank < 50 ? `lower than ${99 - rank} %` : `higher than ${rank} %`;
      if (rank !== 255) words.append(element("span", ` ${where} of all`, "faint"));
      const heading = element("dt", kind.heading);
      heading.title = kind.help;
      return [heading, words];
    });
    one("evidence").replaceChildren(...parts);
  }

  showSample(item) {
    const { pictures, table, text } = this.queue;
    const seen = pictures ? pictures.has(item) : table ? table.has(item) : Boolean(text) && text.place[item] > 0;
    one("picture").hidden = !(pictures && seen);
    one("features").hidden = !(table && seen);
    one("words").hidden = !(text && seen);
    one("blank").hidden = seen || !(pictures || table || text);
    one("blank").textContent = `no ${pictures ? "picture" : table ? "values" : "text"} in this file`;
    if (pictures && seen) {
      one("picture").setAttribute("aria-label", `sample ${this.queue.index[item]}`);
      pictures.draw(item, one("picture"));
    }
    if (table && seen) this.showFeatures(item);
    if (text && seen) this.showText(item);
  }

  /** The text, with the words marked that are more frequent in the given class, and in the one that is suggested. */
  showText(item) {
    const other = this.queue.replacement(item);
    const names = { "1": this.queue.classes[other], "-1": this.queue.classes[this.queue.given[item]] };
    const pieces = this.queue.text.pieces[this.queue.text.place[item] - 1];
    const parts = pieces.map(([sign, words]) => {
      if (!sign) return document.createTextNode(words);
      const mark = element("mark", words, sign > 0 ? "for-other" : "for-given");
      mark.title = `more frequent in ${names[sign]}`;
      return mark;
    });
    const used = new Set(pieces.map(([sign]) => sign));
    const legend = [1, -1].filter((sign) => used.has(sign)).map((sign) => {
      const line = element("span", "more frequent in ", "small");
      line.append(element("mark", names[sign], sign > 0 ? "for-other" : "for-given"));
      return line;
    });
    const key = element("p", "", "key");
    key.append(...legend);
    const body = element("p", "", "text");
    body.append(...parts);
    one("words").replaceChildren(body, key);
  }

  showFeatures(item) {
    const { names } = this.queue.table;
    const parts = [this.featureTable(item, 0, Math.min(FEATURES, names.length))];
    if (names.length > FEATURES) {
      const more = element("details");
      more.append(element("summary", `${count(names.length - FEATURES)} more`));
      more.addEventListener("toggle", () => more.append(this.featureTable(item, FEATURES, names.length)), { once: true });
      parts.push(more);
    }
    one("features").replaceChildren(...parts);
  }

  /** Values of a sample, and beside each what is typical of the given and of the suggested class. */
  featureTable(item, from, to) {
    const { table, given } = this.queue;
    const other = this.queue.replacement(item);
    const labels = table.typical ? [given[item], ...(other < 0 ? [] : [other])] : [];
    const made = element("table", "", "features");
    const head = made.createTHead().insertRow();
    head.append(element("td"), element("th", "here"), ...labels.map((label) => element("th", this.queue.classes[label])));
    const body = made.createTBody();
    for (let feature = from; feature < to; feature++) {
      const row = body.insertRow();
      const typical = labels.map((label) => table.typicalOf(label, feature));
      const values = [table.value(item, feature), ...typical];
      const [own, ...others] = table.cells ? values : comparable(values);
      row.append(element("th", table.names[feature]), element("td", own, own.length > 40 ? "long" : ""));
      row.append(...others.map((text) => element("td", text, "faint")));
    }
    return made;
  }

  showStrip() {
    const { review } = this;
    const place = Math.max(0, review.shown.indexOf(review.current));
    const some = review.shown.slice(Math.max(0, place - AROUND[0]), place + AROUND[1]);
    const rows = some.map((item) => this.stripItem(item));
    one("strip").replaceChildren(...rows);
    const here = rows[some.indexOf(review.current)];
    if (here) one("strip").scrollLeft = here.offsetLeft - one("strip").offsetLeft - 2 * here.offsetWidth;
  }

  stripItem(item) {
    const { queue, review } = this;
    const button = element("button");
    button.type = "button";
    button.dataset.item = item;
    const [given, looks] = [queue.given[item], queue.suggested(item)].map((label) => queue.classes[label]);
    button.title = given === looks ? given : `${given}, looks like ${looks}`;
    if (item === review.current) button.setAttribute("aria-current", "true");
    if (queue.pictures) {
      const canvas = element("canvas");
      if (queue.pictures.has(item)) queue.pictures.draw(item, canvas);
      button.append(canvas);
    }
    const code = review.codes[item];
    const words = queue.pictures || given === looks ? [looks] : [given, "→", looks];
    if (code) button.append(element("span", this.decision(code), "settled"));
    else button.append(...words.map((word) => element("span", word)));
    const row = element("li");
    row.append(button);
    return row;
  }
}
