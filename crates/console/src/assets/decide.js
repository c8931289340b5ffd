// @ts-check
// Nothing changes under the pointer of a user who is deciding: a part with a decision is not replaced while it is in
// use, and a form that has just changed cannot be sent for a moment.

/** How long a part that has just changed takes no click, in milliseconds. */
const SETTLES = 800;
const DECIDES = "form [name=seen], form [name=events]";
/** When a part was last replaced. @type {WeakMap<Element, number>} */
const changed = new WeakMap();

/** Whether a part is being used to decide. @param {Element} part */
export function isInUse(part) {
  if (!part.querySelector(DECIDES)) return false;
  return part.matches(":hover") || part.contains(document.activeElement);
}

/** Notes that a part was replaced. @param {Element} part */
export function noteChange(part) {
  if (part.querySelector(DECIDES)) changed.set(part, performance.now());
}

/** Offers a change instead of making it. @param {Element} part @param {() => void} show */
export function offer(part, show) {
  let bar = part.querySelector(":scope > .changed");
  if (!bar) {
    bar = document.createElement("p");
    bar.className = "changed";
    bar.setAttribute("role", "status");
    part.prepend(bar);
  }
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Show it";
  button.addEventListener("click", show);
  bar.replaceChildren("This changed since you looked at it. ", button);
}

document.addEventListener("submit", (event) => {
  const part = /** @type {HTMLElement} */ (event.target).closest("[data-part]");
  const since = part && changed.get(part);
  if (since !== undefined && since !== null && performance.now() - since < SETTLES) event.preventDefault();
}, { capture: true });
