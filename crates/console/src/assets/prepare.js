// @ts-check
// Prepares new content of a page: relative times, buttons that only work with script, boxes that scroll.

/** Seconds in the units that a person reads. */
const UNITS = /** @type {const} */ ([["day", 86400], ["hour", 3600], ["minute", 60]]);
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
/** Shows a time as how long ago it was; the exact time stays as its title. @param {HTMLTimeElement} time */
export function showAge(time) {
  const at = new Date(time.dateTime);
  const seconds = (at.getTime() - Date.now()) / 1000;
  const unit = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  time.title = at.toLocaleString();
  time.textContent = unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : "just now";
}

/** Prepares what is new in the page. @param {ParentNode} root */
export function prepare(root) {
  // Scrollable boxes must be reachable by keyboard.
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

