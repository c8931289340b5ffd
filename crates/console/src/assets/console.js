// @ts-check
// Live updates, the keyboard, importing, copying and relative times. Every page works without this file.

/** Seconds in the units that a person reads. */
const UNITS = /** @type {const} */ ([["day", 86400], ["hour", 3600], ["minute", 60]]);
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
/** Where `g` and another key lead. */
const PLACES = /** @type {Record<string, string>} */ ({ n: "/", w: "/workflows", s: "/settings", l: "/logs" });
let previousKey = "";

/** Shows a time as how long ago it was; the exact time stays as its title. @param {HTMLTimeElement} time */
function showAge(time) {
  const at = new Date(time.dateTime);
  const seconds = (at.getTime() - Date.now()) / 1000;
  const unit = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  time.title = at.toLocaleString();
  time.textContent = unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : "just now";
}

/** Prepares what is new in the page. @param {ParentNode} root */
function prepare(root) {
  // What scrolls must be reachable by keyboard.
  for (const box of root.querySelectorAll('pre, .scroll, table')) {
    if (box instanceof HTMLElement && (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1)) {
      box.tabIndex = 0;
    }
  }
  for (const time of root.querySelectorAll("time")) showAge(time);
  for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (root.querySelectorAll("[data-copy]"))) {
    button.hidden = false;
  }
  for (const own of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-without-script]"))) own.hidden = true;
  for (const own of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-with-script]"))) own.hidden = false;
}

/** The fields of a part that a person has changed. @param {Element} part */
function typed(part) {
  const fields = /** @type {NodeListOf<HTMLInputElement | HTMLTextAreaElement>} */ (
    part.querySelectorAll("textarea, input:not([type=hidden])"));
  return [...fields].filter((field) => field.value !== field.defaultValue);
}

/** What names a field in every rendering of its part. @param {Element} field */
function keyOf(field) {
  return field.id || `${field.closest("form")?.getAttribute("action")} ${field.getAttribute("name")}`;
}

/** Finds the element of a part with the same key. @param {Element} part @param {string} wanted */
function byKey(part, wanted) {
  const all = /** @type {NodeListOf<HTMLElement>} */ (part.querySelectorAll("a, button, input, select, textarea, summary"));
  return [...all].find((own) => nameOf(own) === wanted);
}

/** What names anything that can have the focus. @param {Element} own */
function nameOf(own) {
  if (own instanceof HTMLAnchorElement) return `a ${own.getAttribute("href")}`;
  if (own.tagName === "SUMMARY") return `summary ${own.parentElement?.dataset.key}`;
  return `${own.tagName} ${keyOf(own)}`;
}

/** Replaces a part and keeps focus, open panels, scroll positions and what was typed. @param {string} id @param {string} html */
function replace(id, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const next = template.content.firstElementChild;
  const old = document.getElementById(id);
  if (!next) return;
  if (!old) {
    document.getElementById("main")?.append(next);
    prepare(next);
    return;
  }
  const fields = typed(old).map((field) => ({ key: keyOf(field), value: field.value }));
  const open = [...old.querySelectorAll("details[open]")].map((own) => /** @type {HTMLElement} */ (own).dataset.key);
  const scrolled = [...old.querySelectorAll(".scroll, pre")].map((own) => [own.scrollLeft, own.scrollTop]);
  const focused = document.activeElement && old.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const selection = document.activeElement instanceof HTMLTextAreaElement || document.activeElement instanceof HTMLInputElement
    ? /** @type {[number | null, number | null]} */ ([document.activeElement.selectionStart, document.activeElement.selectionEnd])
    : null;
  old.replaceWith(next);
  prepare(next);
  for (const details of /** @type {NodeListOf<HTMLDetailsElement>} */ (next.querySelectorAll("details"))) {
    if (open.includes(details.dataset.key)) details.open = true;
  }
  [...next.querySelectorAll(".scroll, pre")].forEach((own, at) => {
    if (scrolled[at]) [own.scrollLeft, own.scrollTop] = scrolled[at];
  });
  for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (next.querySelectorAll("textarea, input:not([type=hidden])"))) {
    const before = fields.find((own) => own.key === keyOf(field));
    if (before) field.value = before.value;
  }
  if (focused) {
    const again = byKey(next, focused);
    again?.focus({ preventScroll: true });
    if (selection && (again instanceof HTMLTextAreaElement || again instanceof HTMLInputElement)) {
      try { again.setSelectionRange(...selection); } catch { /* Some inputs have no selection. */ }
    }
  }
}

/** Keeps the page up to date. @param {string} address */
function listen(address) {
  const seen = [...document.querySelectorAll("[data-seen]")].map((own) => /** @type {HTMLElement} */ (own).dataset.seen);
  const source = new EventSource(`/live${address}${address.includes("?") ? "&" : "?"}has=${seen.join(",")}`);
  const state = document.querySelector("[data-live-state]");
  const say = (/** @type {string} */ text) => { if (state && state.textContent !== text) state.textContent = text; };
  source.onopen = () => say("live");
  source.onerror = () => say("not connected");
  source.onmessage = (message) => {
    const { id, html } = JSON.parse(message.data);
    replace(id, html);
  };
}

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

/** Sends a bundle and opens what it became. @param {HTMLInputElement} field */
async function bringIn(field) {
  const file = field.files?.[0];
  const said = document.querySelector("[data-import-said]");
  if (!file) return;
  const headers = { "x-workrail-token": field.dataset.import ?? "" };
  const answer = await fetch("/import", { method: "POST", headers, body: file });
  const text = await answer.text();
  if (answer.ok) location.href = text;
  else if (said) said.textContent = text;
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
  const before = previousKey;
  previousKey = event.key;
  if (before === "g" && event.key in PLACES) location.href = PLACES[event.key];
  else if (event.key === "?") /** @type {HTMLDialogElement | null} */ (document.getElementById("help"))?.showModal();
  else if (event.key === "/") /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target).closest("[data-copy]");
  const text = button?.parentElement?.querySelector("pre")?.textContent;
  if (!button || text == null) return;
  navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; });
});

document.addEventListener("change", (event) => {
  const field = /** @type {HTMLSelectElement} */ (event.target);
  if (field.matches("[data-submit]")) field.form?.requestSubmit();
  if (field.matches("[data-import]")) bringIn(/** @type {HTMLInputElement} */ (event.target));
});

prepare(document);
setInterval(() => document.querySelectorAll("time").forEach(showAge), 30000);
if (document.body.dataset.live) listen(document.body.dataset.live);
export {};
