// @ts-check
// Everything that pages do with script. Every page works without it, except live updates, importing, copying, keys,
// moving a path by hand, and notifications.

import "./keys.js";
import "./edit.js";
import "./pan.js";
import "./passkey.js";
import { listen } from "./live.js";
import { prepare, showAge } from "./prepare.js";

/** Sends a bundle and opens what it became. @param {HTMLInputElement} field */
async function importBundle(field) {
  const file = field.files?.[0];
  const said = document.querySelector("[data-import-said]");
  const say = (/** @type {string} */ text) => { if (said) said.textContent = text; };
  if (!file) return;
  say(`Importing ${file.name}…`);
  try {
    const headers = { "x-workrail-token": field.dataset.import ?? "" };
    const answer = await fetch("/import", { method: "POST", headers, body: file });
    const text = await answer.text();
    if (answer.ok) location.href = text;
    else say(text);
  } catch {
    say("The console did not answer. Is it still running?");
  }
  // So that the same file can be chosen again.
  field.value = "";
}

document.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target).closest("[data-copy]");
  const text = button?.parentElement?.querySelector("pre")?.textContent;
  if (!button || text == null) return;
  navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; });
});

document.addEventListener("change", (event) => {
  const field = /** @type {HTMLInputElement} */ (event.target);
  if (field.matches("[data-import]")) importBundle(field);
});

// The result of an action is shown once, not again when the page is reloaded or bookmarked.
const address = new URL(location.href);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(null, "", address);
}
prepare(document);
setInterval(() => document.querySelectorAll("time").forEach(showAge), 30000);
listen();
