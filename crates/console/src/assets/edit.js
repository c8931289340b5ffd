// @ts-check
// The editor of a workflow's file: checks while the user types, keeps line numbers next to the text, inserts
// builtins. The server decides what is wrong and how it looks; the plain form does the same without this script.

import { prepare } from "./prepare.js";

/** How long typing rests before the text is checked, in milliseconds. */
const RESTS = 300;
/** Where the cursor was, for the page that a button leads to. */
const PLACE = "workrail-editor-place";

const form = /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-editor]"));
const text = /** @type {HTMLTextAreaElement | null} */ (form?.querySelector("textarea[name=text]") ?? null);

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {AbortController | null} */
let running = null;
let isSent = false;
/** What was checked last. */
let checked = "";

/** How many bytes come before a place in the text, which counts in UTF-16. @param {string} value @param {number} place */
function bytesBefore(value, place) {
  return new TextEncoder().encode(value.slice(0, place)).length;
}

/** Replaces the parts that the server rendered. @param {string} html */
function show(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const next of [...template.content.children]) {
    const old = document.getElementById(next.id);
    if (!old || keepsPlan(old, next)) continue;
    const open = [...old.querySelectorAll("details[open]")].map((own) => /** @type {HTMLElement} */ (own).dataset.key);
    old.replaceWith(next);
    for (const own of /** @type {NodeListOf<HTMLDetailsElement>} */ (next.querySelectorAll("details"))) {
      if (open.includes(own.dataset.key)) own.open = true;
    }
    prepare(next);
  }
  follow();
}

/** Most texts have errors while they are typed: then the last plan stays, and says so. @param {Element} old @param {Element} next */
function keepsPlan(old, next) {
  const stale = /** @type {HTMLElement | null} */ (old.querySelector("[data-stale]"));
  if (!stale || !next.querySelector("[data-no-plan]")) return false;
  stale.hidden = false;
  return true;
}

/** Keeps the line numbers next to their lines. */
function follow() {
  const numbers = document.getElementById("numbers");
  if (numbers && text) numbers.scrollTop = text.scrollTop;
}

/** Asks the server about the text as it is now. */
async function check() {
  if (!form || !text) return;
  const place = String(bytesBefore(text.value, text.selectionStart));
  const asked = `${place}\n${text.value}`;
  if (asked === checked) return;
  checked = asked;
  running?.abort();
  running = new AbortController();
  const state = document.querySelector("[data-editor-state]");
  const body = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  body.set("at", place);
  body.delete("step");
  try {
    const answer = await fetch(form.dataset.editor ?? "", { method: "POST", body, signal: running.signal });
    if (!answer.ok) throw new Error(String(answer.status));
    show(await answer.text());
    if (state) state.textContent = "";
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") return;
    checked = "";
    if (state) state.textContent = "The text could not be checked: the console does not answer.";
  }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(check, RESTS);
}

/** Puts the cursor on a line. @param {number} line */
function goTo(line) {
  if (!text) return;
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, own) => sum + own.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  const height = text.scrollHeight / Math.max(lines.length, 1);
  text.scrollTop = Math.max(0, (line - 4) * height);
  follow();
}

if (form && text) {
  text.addEventListener("input", () => {
    // The review shown was of another text.
    document.querySelector("[data-review]")?.remove();
    soon();
  });
  text.addEventListener("scroll", follow);
  document.addEventListener("selectionchange", () => { if (document.activeElement === text) soon(); });
  document.addEventListener("click", (event) => {
    const own = /** @type {HTMLElement} */ (event.target).closest("[data-line], [data-insert], [data-problem]");
    if (!(own instanceof HTMLElement)) return;
    if (own.dataset.problem) document.querySelector(`[data-line="${own.dataset.problem}"]`)?.closest("li")?.scrollIntoView({ block: "nearest" });
    if (own.dataset.line) goTo(Number(own.dataset.line));
    if (own.dataset.insert !== undefined) {
      text.focus();
      text.setRangeText(own.dataset.insert, text.selectionStart, text.selectionEnd, "end");
      soon();
    }
  });
  form.addEventListener("submit", () => {
    isSent = true;
    sessionStorage.setItem(PLACE, JSON.stringify([location.pathname, text.selectionStart, text.scrollTop]));
  });
  // Leaving the page loses the text; the browser asks in its own words.
  window.addEventListener("beforeunload", (event) => {
    if (!isSent && text.value !== text.defaultValue) event.preventDefault();
  });
  // A button reloads the page: the cursor stays where it was.
  const [page, start, top] = JSON.parse(sessionStorage.getItem(PLACE) ?? "[]");
  sessionStorage.removeItem(PLACE);
  if (page === location.pathname) {
    text.setSelectionRange(start, start);
    text.scrollTop = top;
  }
  follow();
}
