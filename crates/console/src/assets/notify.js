// @ts-check
// Tells the user when a run starts waiting for them, while the first page is open in some tab. Off until asked for.

const CHOICE = "workrail-notify";

/** The choice of this browser. */
function isOn() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(CHOICE) === "on";
}

/** Shows the state on the button. @param {HTMLElement} button */
function show(button) {
  button.setAttribute("aria-pressed", String(isOn()));
  button.textContent = isOn() ? "Notifications on" : "Notify me";
  button.hidden = false;
}

/** What waits in a part, by the address of each run. @param {Element} part */
function waiting(part) {
  const found = /** @type {Map<string, Element>} */ (new Map());
  for (const card of part.querySelectorAll("article.card")) {
    const address = card.querySelector("h3 a")?.getAttribute("href");
    if (address) found.set(address, card);
  }
  return found;
}

/** Switches notifications on or off. @param {HTMLElement} button */
async function toggle(button) {
  if (isOn()) localStorage.setItem(CHOICE, "off");
  else if (await Notification.requestPermission() === "granted") localStorage.setItem(CHOICE, "on");
  show(button);
}

/** Whether this page keeps its stream while it is hidden, because it notifies. */
export function keepsStream() {
  return document.querySelector("[data-notify]") !== null && isOn();
}

const button = /** @type {HTMLElement | null} */ (document.querySelector("[data-notify]"));
if (button && "Notification" in window) {
  show(button);
  button.addEventListener("click", () => toggle(button));
  document.addEventListener("workrail:part", (event) => {
    const { id, before, after } = /** @type {CustomEvent} */ (event).detail;
    if (id !== "needs" || !isOn()) return;
    const known = waiting(before);
    for (const [address, card] of waiting(after)) {
      if (known.has(address)) continue;
      const label = card.querySelector("h3")?.textContent ?? "A run";
      const body = card.querySelector(".goal")?.textContent ?? "";
      const shown = new Notification(`${label} needs you`, { body, tag: address });
      shown.onclick = () => { window.focus(); location.href = address; };
    }
  });
}
