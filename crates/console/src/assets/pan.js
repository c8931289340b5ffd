// @ts-check
// The path of a run: drag to move, `+`, `-` and `0` or the wheel with Ctrl to zoom. Arrow keys scroll it by themselves.

import { areKeysOn } from "./keys.js";

const STEP = 1.2;
const SMALLEST = 0.2;
const LARGEST = 3;
/** The zoom survives live updates of the path. */
let zoom = 1;

/** The drawing that can be moved, if the page has one. */
function drawing() {
  return /** @type {SVGSVGElement | null} */ (document.querySelector("svg[data-pan]"));
}

/** Sizes the drawing; the point under the middle of its box stays there. */
function size() {
  const svg = drawing();
  const box = svg?.parentElement;
  if (!svg || !box) return;
  const { width, height } = svg.viewBox.baseVal;
  const before = svg.width.baseVal.value / width;
  const [x, y] = [box.scrollLeft + box.clientWidth / 2, box.scrollTop + box.clientHeight / 2];
  svg.setAttribute("width", String(width * zoom));
  svg.setAttribute("height", String(height * zoom));
  box.scrollLeft = x * (zoom / before) - box.clientWidth / 2;
  box.scrollTop = y * (zoom / before) - box.clientHeight / 2;
}

/** Zooms by a step, or back. @param {string | undefined} way */
function change(way) {
  if (way === "in") zoom = Math.min(zoom * STEP, LARGEST);
  else if (way === "out") zoom = Math.max(zoom / STEP, SMALLEST);
  else zoom = 1;
  size();
}

/** Brings the point that is shown into view. */
function reveal() {
  const svg = drawing();
  const box = svg?.parentElement;
  const shown = svg?.querySelector('a[aria-current="true"]');
  if (!box || !shown) return;
  const [inner, outer] = [shown.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - box.clientHeight / 2;
}

/** Follows the pointer until it is let go. @param {PointerEvent} start */
function drag(start) {
  const box = /** @type {HTMLElement} */ (start.target).closest(".path");
  if (!box || start.button !== 0 || start.pointerType === "touch") return;
  const [left, top] = [box.scrollLeft, box.scrollTop];
  let moved = false;
  const move = (/** @type {PointerEvent} */ event) => {
    moved ||= Math.abs(event.clientX - start.clientX) + Math.abs(event.clientY - start.clientY) > 4;
    box.scrollLeft = left - (event.clientX - start.clientX);
    box.scrollTop = top - (event.clientY - start.clientY);
  };
  const swallow = (/** @type {Event} */ event) => event.preventDefault();
  const end = () => {
    document.removeEventListener("pointermove", move);
    // A drag is not a click; let go outside of the box, it makes none, and the next one counts.
    if (moved) box.addEventListener("click", swallow, { capture: true });
    setTimeout(() => {
      box.classList.remove("dragged");
      box.removeEventListener("click", swallow, { capture: true });
    });
  };
  box.classList.add("dragged");
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", end, { once: true });
}

document.addEventListener("pointerdown", drag);
document.addEventListener("dragstart", (event) => {
  if (/** @type {HTMLElement} */ (event.target).closest?.(".path")) event.preventDefault();
});
document.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest("[data-zoom]"));
  if (button) change(button.dataset.zoom);
});
document.addEventListener("wheel", (event) => {
  if (!event.ctrlKey || !/** @type {HTMLElement} */ (event.target).closest(".path")) return;
  change(event.deltaY < 0 ? "in" : "out");
  event.preventDefault();
}, { passive: false });
document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
  if (!areKeysOn()) return;
  const way = { "+": "in", "=": "in", "-": "out", 0: "reset" }[event.key];
  if (!way || !drawing()) return;
  change(way);
  event.preventDefault();
});
document.addEventListener("workrail:part", (event) => {
  if (/** @type {CustomEvent} */ (event).detail.id === "graph" && zoom !== 1) size();
});
reveal();
