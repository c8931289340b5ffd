// @ts-check
// Live updates: parts of the page are replaced when they change, and focus, scroll positions and typed text are kept.

import { prepare } from "./prepare.js";

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
  if (own.tagName.toLowerCase() === "a") return `a ${own.getAttribute("href")}`;
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
  document.dispatchEvent(new CustomEvent("workrail:part", { detail: { id, before: old, after: next } }));
}

/** Keeps the page up to date. @param {string} address */
export function listen(address) {
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
