// How a sample is shown. Names come from files: they are set as text, never as markup.

const AROUND = [4, 24]; // samples in the strip, before and after
const FEATURES = 12; // of a table that are shown at once

const one = (id) => document.getElementById(id);

function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

const count = (number) => number.toLocaleString("en");

/** A share in per cent; what rounds to none or to all is not said to be that. */
function percent(share) {
  if (share > 0.9995 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return (100 * share).toFixed(share > 0.99 || share < 0.1 ? 1 : 0) + " %";
}

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

class View {
  constructor(queue, review) {
    this.queue = queue;
    this.review = review;
    this.fillMenu();
    one("why").open = innerWidth > 740; // on a phone the picture and the buttons come first
    one("card").classList.toggle("pixels", Boolean(queue.pictures) && queue.pictures.width < 100);
    one("card").classList.toggle("wide", Boolean(queue.table || queue.text));
    one("strip").classList.toggle("words", !queue.pictures);
    one("card").classList.toggle("plain", !queue.pictures && !queue.table && !queue.text);
  }

  fillMenu() {
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
    one("progress").value = found.decided;
    one("precision").textContent = this.precision(found);
    one("export").disabled = !found.decided;
    one("export").textContent = found.decided ? `Download ${plural(found.decided, "decision")}` : "Download corrections";
    one("undo").disabled = !review.steps.length;
    one("storage").hidden = review.saved;
    one("reviewed").checked = review.showReviewed;
    const left = count(review.shown.filter((item) => !review.codes[item]).length);
    for (const place of document.querySelectorAll(".bulk .left")) place.textContent = left;
  }

  precision(found) {
    if (!found.counted) return `${count(this.queue.size)} to review`;
    const text = `of ${count(found.counted)} reviewed, ${count(found.wrong)} were wrong (${percent(found.wrong / found.counted)})`;
    const unsure = found.decided - found.counted;
    return (
      text +
      (this.queue.canTell ? `, where the audit expected ${count(Math.round(found.expected))}` : "") +
      (unsure ? `; unsure of ${count(unsure)}` : "")
    );
  }

  showFilter() {
    const { pair } = this.review;
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
    const everything = this.review.measure().decided === this.queue.size;
    one("done-words").textContent = everything
      ? "All reviewed. Download the corrections to train with them."
      : "Nothing is left here. The others are not part of this filter.";
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
      : `score ${short(queue.doubt(item))}; higher is rather wrong`;
    one("path").textContent = queue.path(item);
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
        element("kbd", String(k + 1)),
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
      return [element("dt", kind.name), words];
    });
    one("evidence").replaceChildren(...parts);
  }

  showSample(item) {
    const { pictures, table, text } = this.queue;
    const seen = pictures ? pictures.has(item) : table ? table.has(item) : Boolean(text) && item < text.rows;
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
    const parts = this.queue.text.pieces[item].map(([sign, words]) => {
      if (!sign) return document.createTextNode(words);
      const mark = element("mark", words, sign > 0 ? "for-other" : "for-given");
      mark.title = `more frequent in ${names[sign]}`;
      return mark;
    });
    const used = new Set(this.queue.text.pieces[item].map(([sign]) => sign));
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
    button.title = `${given}, looks like ${looks}`;
    if (item === review.current) button.setAttribute("aria-current", "true");
    if (queue.pictures) {
      const canvas = element("canvas");
      if (queue.pictures.has(item)) queue.pictures.draw(item, canvas);
      button.append(canvas);
    }
    const code = review.codes[item];
    const words = queue.pictures ? looks : `${given} → ${looks}`;
    button.append(element("span", code ? this.decision(code) : words, code ? "settled" : ""));
    const row = element("li");
    row.append(button);
    return row;
  }
}
