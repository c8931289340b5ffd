// @ts-check
// The keyboard: moving between items and pages, searching, and the help on keys. Single keys can be switched off.

const CHOICE = "workrail-keys";
/** Where `g` and another key lead. */
const PLACES = /** @type {Record<string, string>} */ ({ n: "/", w: "/workflows", s: "/settings", l: "/logs" });
let previousKey = "";
/** The address of the item that was chosen last: parts are replaced. */
let chosen = "";

/** What tells an item from others in every rendering. @param {Element} item */
const addressOf = (item) => item.querySelector("a")?.getAttribute("href") ?? "";

/** Whether single keys act. */
export function areKeysOn() {
  return localStorage.getItem(CHOICE) !== "off";
}

/** Moves to the next or the previous item. @param {number} step */
function move(step) {
  const items = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-item]")]);
  const here = document.activeElement?.closest("[data-item]");
  const at = here ? items.indexOf(/** @type {HTMLElement} */ (here)) : items.findIndex((item) => addressOf(item) === chosen);
  const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
  if (!next) return;
  for (const item of items) item.classList.toggle("chosen", item === next);
  chosen = addressOf(next);
  next.querySelector("a")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function showHelp() {
  const help = /** @type {HTMLDialogElement | null} */ (document.getElementById("help"));
  const off = /** @type {HTMLInputElement | null} */ (help?.querySelector("[data-keys-on]"));
  if (off) off.checked = areKeysOn();
  help?.showModal();
}

/** Goes to the search field, on pages without one to that of the first page. */
function search() {
  const field = /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"));
  if (field) field.focus();
  else location.href = "/search";
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
  if (!areKeysOn()) return;
  const before = previousKey;
  previousKey = event.key;
  if (before === "g" && event.key in PLACES) location.href = PLACES[event.key];
  else if (event.key === "?") showHelp();
  else if (event.key === "/") search();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  if (/** @type {HTMLElement} */ (event.target).closest("[data-keys]")) showHelp();
});

document.addEventListener("change", (event) => {
  const field = /** @type {HTMLInputElement} */ (event.target);
  if (field.matches("[data-keys-on]")) localStorage.setItem(CHOICE, field.checked ? "on" : "off");
});
