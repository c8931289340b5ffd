// @ts-check
// Everything that pages do with script. Every page works without it, except live updates, importing, copying, keys,
// moving a path by hand, and notifications.

import "./keys.js";
import "./notify.js";
import "./pan.js";
import { listen } from "./live.js";
import { prepare, showAge } from "./prepare.js";

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
