// @ts-check
// The editor of a workflow's file: checks while somebody types, keeps line numbers beside the text, inserts builtins.
// What is wrong and how it looks is decided by the server; the plain form does the same without this.

/** How long typing rests before the text is checked, in milliseconds. */
const RESTS = 300;

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
    if (!old) continue;
    const open = [...old.querySelectorAll("details[open]")].map((own) => /** @type {HTMLElement} */ (own).dataset.key);
    old.replaceWith(next);
    for (const own of /** @type {NodeListOf<HTMLDetailsElement>} */ (next.querySelectorAll("details"))) {
      if (open.includes(own.dataset.key)) own.open = true;
    }
    for (const own of /** @type {NodeListOf<HTMLElement>} */ (next.querySelectorAll("[data-with-script]"))) own.hidden = false;
  }
  follow();
}

/** Keeps the line numbers beside their lines. */
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
    const answer = await fetch(`${form.getAttribute("action")}/check`, { method: "POST", body, signal: running.signal });
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
  text.addEventListener("input", soon);
  text.addEventListener("scroll", follow);
  document.addEventListener("selectionchange", () => { if (document.activeElement === text) soon(); });
  document.addEventListener("click", (event) => {
    const own = /** @type {HTMLElement} */ (event.target).closest("[data-line], [data-insert]");
    if (!(own instanceof HTMLElement)) return;
    if (own.dataset.line) goTo(Number(own.dataset.line));
    if (own.dataset.insert !== undefined) {
      text.focus();
      text.setRangeText(own.dataset.insert, text.selectionStart, text.selectionEnd, "end");
      soon();
    }
  });
  form.addEventListener("submit", () => { isSent = true; });
  // What was typed is lost when the page is left; the browser asks in its own words.
  window.addEventListener("beforeunload", (event) => {
    if (!isSent && text.value !== text.defaultValue) event.preventDefault();
  });
  follow();
}
