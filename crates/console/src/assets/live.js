// @ts-check
// Live updates: parts of the page are replaced when they change, and focus, scroll positions and typed text are kept.
//
// A browser opens six connections to a host, so only a visible page holds one, and none while a form is sent.

import { prepare } from "./prepare.js";
import { keepsStream } from "./notify.js";
import { noteChange, isInUse, offer } from "./decide.js";

/** How long to wait before connecting again, in milliseconds. */
const WAITS = [500, 2000, 5000, 15000];
const FIELDS = "textarea, select, input:not([type=hidden])";
/** @type {EventSource | null} */
let source = null;
let failures = 0;

/** @typedef {HTMLInputElement | HTMLTextAreaElement} Field */

/** What a form decides about; what was typed for something else is not kept. @param {Element} field */
function subject(field) {
  const hidden = /** @type {HTMLInputElement | null | undefined} */ (
    field.closest("form")?.querySelector("[name=seen], [name=events]"));
  return hidden?.value ?? "";
}

/** What names a field in every rendering of its part. @param {Element} field */
function keyOf(field) {
  return field.id || `${field.closest("form")?.getAttribute("action")} ${field.getAttribute("name")}`;
}

/** What names anything that can have the focus. @param {Element} own */
function nameOf(own) {
  if (own.tagName.toLowerCase() === "a") return `a ${own.getAttribute("href")}`;
  if (own.tagName === "SUMMARY") return `summary ${own.parentElement?.dataset.key}`;
  if (own.classList.contains("scroll")) return "scroll";
  return `${own.tagName} ${keyOf(own)}`;
}

/** The fields that a person has changed. @param {Element} part */
function typed(part) {
  const fields = /** @type {NodeListOf<Field>} */ (part.querySelectorAll(FIELDS));
  const changed = [...fields].filter((field) => field.tagName !== "SELECT" && field.value !== field.defaultValue);
  return changed.map((field) => ({ key: keyOf(field), value: field.value, subject: subject(field) }));
}

/** Puts the focus and the selection where they were. @param {Element} part @param {string} wanted @param {[number | null, number | null] | null} selection */
function focusAgain(part, wanted, selection) {
  const all = /** @type {NodeListOf<HTMLElement>} */ (part.querySelectorAll("a, button, summary, .scroll, " + FIELDS));
  const again = [...all].find((own) => nameOf(own) === wanted);
  again?.focus({ preventScroll: true });
  if (selection && (again instanceof HTMLTextAreaElement || again instanceof HTMLInputElement)) {
    try { again.setSelectionRange(...selection); } catch { /* Some inputs have no selection. */ }
  }
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
  const active = document.activeElement;
  const fields = typed(old);
  const panels = /** @type {NodeListOf<HTMLDetailsElement>} */ (old.querySelectorAll("details"));
  const open = new Map([...panels].map((own) => [own.dataset.key, own.open]));
  const scrolled = [...old.querySelectorAll(".scroll, pre")].map((own) => [own.scrollLeft, own.scrollTop]);
  const focused = active && old.contains(active) ? nameOf(active) : null;
  const selection = active instanceof HTMLTextAreaElement || active instanceof HTMLInputElement
    ? /** @type {[number | null, number | null]} */ ([active.selectionStart, active.selectionEnd]) : null;
  old.replaceWith(next);
  prepare(next);
  for (const details of /** @type {NodeListOf<HTMLDetailsElement>} */ (next.querySelectorAll("details"))) {
    details.open = open.get(details.dataset.key) ?? details.open;
  }
  [...next.querySelectorAll(".scroll, pre")].forEach((own, at) => {
    if (scrolled[at]) [own.scrollLeft, own.scrollTop] = scrolled[at];
  });
  for (const field of /** @type {NodeListOf<Field>} */ (next.querySelectorAll(FIELDS))) {
    const before = fields.find((own) => own.key === keyOf(field) && own.subject === subject(field));
    if (before) field.value = before.value;
  }
  if (focused) focusAgain(next, focused, selection);
  noteChange(next);
  document.dispatchEvent(new CustomEvent("workrail:part", { detail: { id, before: old, after: next } }));
}

/** Removes parts that are gone and puts the others in order. @param {string[]} ids */
function arrange(ids) {
  const main = document.getElementById("main");
  const parts = () => /** @type {HTMLElement[]} */ ([...main?.querySelectorAll(":scope > [data-part]") ?? []]);
  for (const part of parts()) if (!ids.includes(part.id)) part.remove();
  ids.forEach((id, at) => {
    const part = document.getElementById(id);
    const here = parts()[at];
    if (part && here && here !== part) here.before(part);
  });
}

/** Names the page, in its heading and in the browser. @param {string} title */
function entitle(title) {
  const heading = document.querySelector("main > h1");
  if (heading && heading.textContent !== title) heading.textContent = title;
  document.title = `${title} · WorkRail`;
}

/** Where the page says whether it is live. */
function liveState() {
  return /** @type {HTMLElement | null} */ (document.querySelector("[data-live-state]"));
}

/** Shows whether the page is live. @param {string} text */
function say(text) {
  const state = liveState();
  if (state && state.textContent !== text) state.textContent = text;
}

/** Why there is no stream, and when to try again. */
async function failed() {
  source?.close();
  source = null;
  const answer = await fetch("/assets/icon.svg", { method: "HEAD", cache: "no-store" }).catch(() => null);
  if (answer?.status === 401) {
    // Which console this is, and so how to get in again, is known where the page is made.
    say(liveState()?.dataset.noAccess ?? "not connected");
    return;
  }
  say(answer?.ok && failures > 2 ? "not live: too many pages are open" : "not connected");
  setTimeout(connect, WAITS[Math.min(failures, WAITS.length - 1)]);
  failures += 1;
}

/** Opens the stream with what the page shows now. */
function connect() {
  const address = document.body.dataset.live;
  if (!address || source || (document.hidden && !keepsStream())) return;
  const parts = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-seen]"));
  const seen = [...parts].map((own) => own.dataset.seen).join(",");
  source = new EventSource(`/live${address}${address.includes("?") ? "&" : "?"}has=${seen}`);
  source.onopen = () => { failures = 0; say("live"); };
  source.onerror = failed;
  source.onmessage = (message) => {
    const { id, html, order, title } = JSON.parse(message.data);
    const part = id && document.getElementById(id);
    if (order) arrange(order);
    else if (part && isInUse(part)) offer(part, () => replace(id, html));
    else if (id) replace(id, html);
    if (title) entitle(title);
  };
}

function disconnect() {
  source?.close();
  source = null;
}

/** Keeps the page up to date while it is looked at. */
export function listen() {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) connect();
    else if (!keepsStream()) disconnect();
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", connect);
  // The form needs its own connection. Closing a dialog needs none, and a page that stays connects again.
  document.addEventListener("submit", (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (event.defaultPrevented || form.method === "dialog") return;
    disconnect();
    setTimeout(connect, WAITS[2]);
  });
  connect();
}
