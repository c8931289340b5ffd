// @ts-check
// Passkeys: a form with `data-passkey` is sent only once an authenticator has signed exactly what it says. The
// challenge comes from the console, which also verifies everything.

/** @param {ArrayBuffer} bytes */
const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
  .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
/** @param {string} text */
const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (own) => own.charCodeAt(0));

/** How long an authenticator waits for its user, in milliseconds. */
const WAITS = 300000;

/** @typedef {{ challenge?: string, nonce: string, party: string, credentials?: string[] }} Asked */

/** Says next to the form what happens. @param {HTMLFormElement} form @param {string} text */
function say(form, text) {
  let said = form.querySelector("[data-passkey-said]");
  if (!said) {
    said = document.createElement("p");
    said.setAttribute("data-passkey-said", "");
    said.setAttribute("role", "status");
    form.append(said);
  }
  said.textContent = text;
}

/** Sets a field that is sent with the form. @param {HTMLFormElement} form @param {string} name @param {string} value */
function put(form, name, value) {
  let field = form.querySelector(`input[name="${name}"]`);
  if (!field) {
    field = document.createElement("input");
    field.setAttribute("type", "hidden");
    field.setAttribute("name", name);
    form.append(field);
  }
  /** @type {HTMLInputElement} */ (field).value = value;
}

/** What the console wants signed for the form. @param {HTMLFormElement} form @param {string} path @returns {Promise<Asked>} */
async function ask(form, path) {
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) body.append(name, String(value));
  const answer = await fetch(`/passkeys${path}`, { method: "POST", body });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

/** @param {string[] | undefined} ids @returns {PublicKeyCredentialDescriptor[]} */
const described = (ids) => (ids ?? []).map((id) => ({ type: "public-key", id: decode(id) }));

/** Has an enrolled key sign the form. @param {HTMLFormElement} form */
async function sign(form) {
  const asked = await ask(form, new URL(form.action).pathname);
  // The first key: there is no other key to confirm it.
  if (!asked.challenge) return;
  if (!asked.credentials?.length) throw new Error("No passkey is enrolled. Enrol one under Settings, Passkeys.");
  say(form, "Confirm with your passkey…");
  const credential = /** @type {PublicKeyCredential | null} */ (await navigator.credentials.get({
    publicKey: {
      challenge: decode(asked.challenge),
      rpId: asked.party,
      allowCredentials: described(asked.credentials),
      userVerification: "required",
      timeout: WAITS,
    },
  }));
  if (!credential) throw new Error("The browser returned no passkey.");
  const response = /** @type {AuthenticatorAssertionResponse} */ (credential.response);
  put(form, "passkey.nonce", asked.nonce);
  put(form, "passkey.credential", encode(credential.rawId));
  put(form, "passkey.authenticatorData", encode(response.authenticatorData));
  put(form, "passkey.clientData", encode(response.clientDataJSON));
  put(form, "passkey.signature", encode(response.signature));
}

/** Makes a new key for the form. @param {HTMLFormElement} form */
async function make(form) {
  const asked = await ask(form, "/settings/passkeys/new");
  const name = String(new FormData(form).get("name") ?? "");
  say(form, "Create the passkey in the window of your browser…");
  const credential = /** @type {PublicKeyCredential | null} */ (await navigator.credentials.create({
    publicKey: {
      challenge: decode(asked.challenge ?? ""),
      rp: { id: asked.party, name: "WorkRail" },
      user: { id: crypto.getRandomValues(new Uint8Array(16)), name, displayName: name },
      // ES256, which every authenticator supports.
      pubKeyCredParams: [{ type: "public-key", alg: -7 }],
      excludeCredentials: described(asked.credentials),
      authenticatorSelection: { userVerification: "required", residentKey: "preferred" },
      attestation: "none",
      timeout: WAITS,
    },
  }));
  if (!credential) throw new Error("The browser returned no passkey.");
  const response = /** @type {AuthenticatorAttestationResponse} */ (credential.response);
  put(form, "new.nonce", asked.nonce);
  put(form, "new.authenticatorData", encode(response.getAuthenticatorData()));
  put(form, "new.clientData", encode(response.clientDataJSON));
}

/** What went wrong, in words. @param {unknown} error */
function problem(error) {
  if (error instanceof DOMException) {
    if (error.name === "NotAllowedError") return "The passkey was not used: cancelled, too late, or not on this device.";
    if (error.name === "InvalidStateError") return "This authenticator has an enrolled passkey already.";
    return `The browser refused: ${error.message}`;
  }
  return error instanceof Error ? error.message : String(error);
}

document.addEventListener("submit", async (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const kind = form.dataset.passkey;
  if (!kind || event.defaultPrevented) return;
  event.preventDefault();
  const isHere = location.protocol === "https:" || location.hostname === "localhost";
  if (!window.PublicKeyCredential || !isHere) {
    const place = location.protocol === "https:" ? location.origin : `http://localhost:${location.port}`;
    say(form, `Passkeys work under ${place} in a browser that has them. Open the console there.`);
    return;
  }
  if (form.dataset.busy) return;
  form.dataset.busy = "yes";
  // Submitting by script omits the button that was pressed.
  const pressed = /** @type {HTMLButtonElement | null} */ (event.submitter);
  if (pressed?.name) put(form, pressed.name, pressed.value);
  try {
    if (kind === "new") await make(form);
    await sign(form);
    form.submit();
  } catch (error) {
    say(form, `${problem(error)} Nothing was recorded.`);
  } finally {
    delete form.dataset.busy;
  }
});
