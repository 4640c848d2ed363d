// Keys and buttons.

const queue = new Queue(JSON.parse(one("data").textContent));
const storeKey = "pyrite-audit-" + queue.fingerprint;
const review = new Review(queue, openStore(storeKey));
const view = new View(queue, review);

function decide(code, words) {
  if (review.current < 0) return;
  const sample = queue.index[review.current];
  review.decide(code);
  view.show(`${words}: sample ${sample}`);
}

function relabel(label) {
  const item = review.current;
  if (item < 0 || label < 0 || !(label in queue.classes)) return;
  // To choose the given class is to keep it.
  if (label === queue.given[item]) decide(KEEP, "Kept");
  else decide(RELABEL + label, `Now ${queue.classes[label]}`);
}

function choose(place) {
  const choice = review.current < 0 ? null : queue.choicesOf(review.current)[place];
  if (choice) relabel(choice.label);
}

function chooseByKey(key) {
  if (review.current >= 0) relabel(queue.labelOf(review.current, key));
}

function decideAll(codeOf, words) {
  view.show(`${words} ${count(review.decideAll(codeOf))}. Undo reverts all of them.`);
}

function go(by) {
  review.move(by);
  review.save();
  view.show();
}

function undo() {
  const taken = review.undo();
  view.show(taken ? `Reverted ${taken === 1 ? "one decision" : count(taken) + " decisions"}.` : "");
}

function filter(pair) {
  review.filter(pair);
  view.show();
  if (!review.pair) return;
  one("review").scrollIntoView({ block: "start" });
  one("card").focus({ preventScroll: true }); // so that arrows go through the queue, not through the matrix
}

function openList(list) {
  review.open(list);
  view.show();
}

function relabelCode(item) {
  const label = queue.replacement(item);
  return label < 0 ? UNDECIDED : RELABEL + label;
}

const ACTIONS = {
  keep: () => decide(KEEP, "Kept"),
  relabel: () => relabel(review.current < 0 ? -1 : queue.replacement(review.current)),
  drop: () => decide(DROP, "Dropped"),
  unsure: () => decide(UNSURE, "Unsure"),
  back: () => go(-1),
  next: () => go(1),
  undo,
  all: () => filter(null),
  "relabel-all": () => decideAll(relabelCode, "Relabelled"),
  "keep-all": () => decideAll(() => KEEP, "Kept"),
  "drop-all": () => decideAll(() => DROP, "Dropped"),
};

const KEYS = { k: "keep", r: "relabel", d: "drop", u: "unsure", z: "undo", ArrowLeft: "back", ArrowRight: "next", Escape: "all" };

/** Nobody should decide about what they do not see: a key brings a card that is out of sight back first. */
function cardInSight() {
  const box = one(review.current < 0 ? "done" : "card").getBoundingClientRect();
  return box.top < 0.7 * innerHeight && box.bottom > 0.3 * innerHeight;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select")) return;
  if (event.target.closest("#matrix") && event.key.startsWith("Arrow")) {
    moveInMatrix(event);
    return;
  }
  if (event.target.closest(".scroll") && event.key.startsWith("Arrow")) return; // it scrolls
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = ACTIONS[KEYS[key]] || (/^[0-9]$/.test(key) ? () => chooseByKey(key) : null);
  if (!action) return;
  event.preventDefault();
  if (cardInSight()) action();
  else one("card").scrollIntoView({ block: "center" });
}

/** The cells of the matrix are one stop for the tab key; arrows go from one that can be pressed to the next. */
function moveInMatrix(event) {
  const cell = event.target.closest("td");
  if (!cell) return;
  event.preventDefault();
  const rows = [...one("matrix").tBodies[0].rows];
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  let [row, column] = [rows.indexOf(cell.parentNode), cell.cellIndex];
  for (;;) {
    [row, column] = [row + down, column + right];
    const next = rows[row]?.cells[column];
    if (!next) return;
    const button = next.querySelector("button");
    if (!button) continue;
    event.target.tabIndex = -1;
    button.tabIndex = 0;
    button.focus();
    return;
  }
}

function onClick(event) {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.do) ACTIONS[button.dataset.do]();
  else if (button.dataset.pair) filter(button.dataset.pair.split(",").map(Number));
  else if (button.dataset.list) openList(button.dataset.list);
  else if (button.dataset.choice) choose(Number(button.dataset.choice));
  else if (button.dataset.item) {
    review.current = Number(button.dataset.item);
    go(0);
  }
}

/** Copies the next command; where the browser does not allow that, it is selected. */
async function copyCommand() {
  getSelection().selectAllChildren(one("command"));
  try {
    await navigator.clipboard.writeText(one("command").textContent);
    one("copy").textContent = "Copied";
  } catch {
    document.execCommand("copy");
  }
}

function download() {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([review.csv()], { type: "text/csv;charset=utf-8" }));
  link.download = "corrections.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
one("filter").addEventListener("click", () => filter(null));
one("export").addEventListener("click", download);
one("copy")?.addEventListener("click", copyCommand);
one("reviewed").addEventListener("change", (event) => {
  review.showReviewed = event.target.checked;
  review.settle();
  view.show();
});
one("other").addEventListener("change", (event) => {
  if (event.target.value !== "") relabel(Number(event.target.value));
  event.target.blur(); // so that the next key is a decision again
});
// Another tab with the same page: go on with what was decided there, instead of writing over it.
addEventListener("storage", (event) => {
  if (event.key !== storeKey) return;
  review.restore();
  view.show("Decisions from another tab.");
});
addEventListener("beforeunload", (event) => {
  if (!review.saved && review.measure().decided) event.preventDefault();
});

const firstCell = document.querySelector("#matrix button");
if (firstCell) firstCell.tabIndex = 0;
view.show();
