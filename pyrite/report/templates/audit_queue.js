"use strict";
// The samples under review, as they stand in the page: columns of numbers, names, and sheets of pictures.

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };

/** Numbers that are held as base64 of their bytes. */
function numbers(column) {
  const text = atob(column.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new KINDS[column.kind](bytes.buffer);
}

class Queue {
  constructor(data) {
    this.fingerprint = data.fingerprint;
    this.classes = data.classes;
    this.digits = data.classes.every((name) => /^[0-9]$/.test(name));
    this.canTell = data.canTell;
    this.width = data.width;
    for (const name of ["index", "given", "score", "choices", "likelihoods"]) this[name] = numbers(data[name]);
    this.evidence = data.evidence.map((one) => ({
      heading: one.heading,
      help: one.help,
      values: numbers(one.values),
      ranks: numbers(one.ranks),
    }));
    this.paths = data.paths;
    this.said = data.said;
    this.lists = Object.fromEntries(Object.entries(data.lists).map(([name, items]) => [name, [...numbers(items)]]));
    this.decided = data.decided;
    this.estimate = { ...data.estimate };
    for (const name of ["stratum", "claimed", "suspect", "speaks"]) this.estimate[name] = numbers(data.estimate[name]);
    this.pictures = data.images ? new Pictures(data.images) : null;
    this.table = data.table ? new Table(data.table) : null;
    this.text = data.text ? { pieces: data.text.pieces, place: numbers(data.text.place) } : null;
  }

  get size() {
    return this.index.length;
  }

  /** The most likely classes of a sample, most likely first. */
  choicesOf(item) {
    const from = item * this.width;
    return Array.from({ length: this.width }, (_, k) => ({
      label: this.choices[from + k],
      likelihood: this.likelihoods[from + k],
    }));
  }

  /** The key of a choice: the class itself if all classes are digits, otherwise its place in the list. */
  keyOf(choice, place) {
    return this.digits ? this.classes[choice.label] : String(place + 1);
  }

  /** The class that a number key chooses, or -1. A digit that is not in the list is a class, too. */
  labelOf(item, key) {
    if (this.digits) return this.classes.indexOf(key);
    const choice = this.choicesOf(item)[Number(key) - 1];
    return choice ? choice.label : -1;
  }

  suggested(item) {
    return this.choices[item * this.width];
  }

  /** What relabelling means without a further word: the most likely class that is not the given one, or -1. */
  replacement(item) {
    const other = this.choicesOf(item).find((choice) => choice.label !== this.given[item]);
    return other ? other.label : -1;
  }

  /** The probability that the label is wrong; where nothing can be told, the score. */
  doubt(item) {
    return this.canTell ? 1 / (1 + Math.exp(-this.score[item])) : this.score[item];
  }

  path(item) {
    return this.paths.length ? this.paths[item] : "";
  }
}

/** Rows of a table: some samples have theirs, and every class what is typical of it. */
class Table {
  constructor(data) {
    this.names = data.names;
    this.place = numbers(data.place);
    this.cells = data.cells || null; // the user's own row, as text
    this.values = data.cells ? data.cells.flat() : numbers(data.values);
    this.typical = this.cells || !data.typical ? data.typical?.flat() : numbers(data.typical);
  }

  has(item) {
    return this.place[item] > 0;
  }

  value(item, feature) {
    return this.values[(this.place[item] - 1) * this.names.length + feature];
  }

  typicalOf(label, feature) {
    return this.typical ? this.typical[label * this.names.length + feature] : NaN;
  }
}

/** Pictures on sheets. A sheet is decoded when one of its pictures is first asked for; the last few are kept. */
class Pictures {
  constructor(data) {
    Object.assign(this, data);
    this.place = numbers(data.place);
    this.sheets = new Map();
  }

  has(item) {
    return this.place[item] > 0;
  }

  async draw(item, canvas) {
    const place = this.place[item] - 1;
    const within = place % this.perSheet;
    const [right, down] = this.pitch;
    const x = (within % this.columns) * right;
    const y = Math.floor(within / this.columns) * down;
    canvas.dataset.item = item;
    const sheet = await this.sheet(Math.floor(place / this.perSheet));
    if (canvas.dataset.item !== String(item)) return; // it shows another by now
    canvas.width = this.width;
    canvas.height = this.height;
    canvas.getContext("2d").drawImage(sheet, x, y, this.width, this.height, 0, 0, this.width, this.height);
  }

  sheet(number) {
    if (!this.sheets.has(number)) {
      const image = new Image();
      image.src = "data:image/webp;base64," + document.getElementById("sheet-" + number).textContent;
      this.sheets.set(number, image.decode().then(() => image));
      if (this.sheets.size > 12) this.sheets.delete(this.sheets.keys().next().value);
    }
    return this.sheets.get(number);
  }
}
