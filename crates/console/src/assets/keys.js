// @ts-check
// The keyboard: moving between items and pages, searching, and the help on keys.

/** Where `g` and another key lead. */
const PLACES = /** @type {Record<string, string>} */ ({ n: "/", w: "/workflows", s: "/settings", l: "/logs" });
let previousKey = "";

/** Moves to the next or the previous item. @param {number} step */
function move(step) {
  const items = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-item]")]);
  const at = items.findIndex((item) => item.classList.contains("chosen"));
  const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
  if (!next) return;
  items[at]?.classList.remove("chosen");
  next.classList.add("chosen");
  next.querySelector("a")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function showHelp() {
  /** @type {HTMLDialogElement | null} */ (document.getElementById("help"))?.showModal();
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
  const before = previousKey;
  previousKey = event.key;
  if (before === "g" && event.key in PLACES) location.href = PLACES[event.key];
  else if (event.key === "?") showHelp();
  else if (event.key === "/") /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  if (/** @type {HTMLElement} */ (event.target).closest("[data-keys]")) showHelp();
});
