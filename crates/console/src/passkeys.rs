//! Passkeys in the console: challenges, and the browser's responses to them (G97, G98).
//!
//! A form that a passkey signs is sent twice: first to `/passkeys/...`, which answers with the challenge for exactly
//! that form; then, with the authenticator's response, to its own address. Nothing is kept in between, so that
//! another server of the same store can handle the second request.

use serde_json::{Value, json};
use workrail_engine::passkeys::{Challenge, ChallengeOrigin, KeyToEnrol, Registration, SignedAct};
use workrail_model::approval::ApprovalDecision;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::Context;
use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::{
    Assertion, Binary, CredentialId, KeyName, Nonce, OriginText, SignedChallenge, relying_party,
};

use crate::changes::{chosen_mode, chosen_setting, shown_checks};
use crate::forms::{RunFormAction, answers, reason, shown};
use crate::state::Console;
use crate::target::QueryPairs;
use crate::use_cases::{EngineResult, refusal};

/// What a passkey is asked to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signing {
    Run(RunId, RunFormAction),
    NewKey,
    Enrol,
    Remove,
    Prefer(SessionId),
    Set,
    Trust,
}

impl Signing {
    /// Parsed from the address beneath `/passkeys`, which equals the form's own address.
    pub(crate) fn parse(parts: &[&str]) -> Option<Self> {
        match parts {
            ["run", run, action] => Some(Self::Run(RunId::parse(run).ok()?, RunFormAction::parse(action)?)),
            ["settings", "passkeys", "new"] => Some(Self::NewKey),
            ["settings", "passkeys", "enrol"] => Some(Self::Enrol),
            ["settings", "passkeys", "remove"] => Some(Self::Remove),
            ["session", session, "prefer"] => Some(Self::Prefer(SessionId::parse(session).ok()?)),
            ["settings", "set"] => Some(Self::Set),
            ["settings", "checks", "trust"] => Some(Self::Trust),
            _ => None,
        }
    }
}

/// The challenge for a form, as the script reads it.
pub(crate) fn challenge(console: &Console, signing: Signing, form: &QueryPairs) -> EngineResult<Value> {
    let nonce = console.use_cases.draw_nonce()?;
    let from = ChallengeOrigin { origin: console.origin(), nonce: &nonce };
    let use_cases = &console.use_cases;
    let answer = match signing {
        Signing::Run(run, action) => challenge_json(&use_cases.challenge_for_run(
            run,
            &shown(console, run, form)?,
            act(action, form, &answers(form)?)?,
            from,
        )?),
        Signing::NewKey => {
            let keys = use_cases.passkeys()?.map_err(|damage| refused(&damage.to_string()))?;
            let known = keys
                .enrolled_by(console.passkey_owner())
                .map(|enrolment| enrolment.credential.clone())
                .collect();
            challenge_json(&Challenge {
                challenge: use_cases.challenge_for_new_key(from),
                credentials: known,
            })
        }
        Signing::Enrol => match use_cases.challenge_to_enrol(&to_enrol(console, form)?, from)? {
            Some(challenge) => challenge_json(&challenge),
            // The first key: there is no other key to confirm it.
            None => json!({}),
        },
        Signing::Prefer(session) => {
            challenge_json(&use_cases.challenge_for_preferences(session, &chosen_mode(form)?, from)?)
        }
        Signing::Set => {
            let (key, value) = chosen_setting(form)?;
            challenge_json(&use_cases.challenge_for_setting(key, value, from)?)
        }
        Signing::Trust => {
            console.administration()?;
            challenge_json(&use_cases.challenge_for_trust(shown_checks(form)?, from)?)
        }
        Signing::Remove => challenge_json(&use_cases.challenge_to_remove(&credential(form)?, from)?),
    };
    let mut answer = answer;
    answer["nonce"] = json!(nonce);
    answer["party"] = json!(relying_party(console.origin()));
    Ok(answer)
}

fn challenge_json(challenge: &Challenge) -> Value {
    let bytes = Binary::<32>::new(*challenge.challenge.as_bytes()).ok();
    json!({ "challenge": bytes, "credentials": challenge.credentials })
}

fn act<'a>(action: RunFormAction, form: &'a QueryPairs, values: &'a Context) -> EngineResult<SignedAct<'a>> {
    match action {
        RunFormAction::Approve => {
            Ok(SignedAct::Decide { decision: ApprovalDecision::Approved, reason: reason(form) })
        }
        RunFormAction::Reject => {
            Ok(SignedAct::Decide { decision: ApprovalDecision::Rejected, reason: reason(form) })
        }
        RunFormAction::Answer => Ok(SignedAct::Answer { values }),
        RunFormAction::Close => Err(refused("Closing a run takes no passkey.")),
    }
}

/// What an authenticator signed for this form; `None` if no passkey signed it.
pub(crate) fn signed(console: &Console, form: &QueryPairs) -> EngineResult<Option<SignedChallenge>> {
    let Some(signature) = form.get("passkey.signature") else { return Ok(None) };
    let nonce = drawn(console, form, "passkey.nonce")?;
    let unreadable = |_| refused("What the passkey returned cannot be read. Nothing was recorded.");
    let text = |name: &str| form.get(name).unwrap_or_default();
    let origin = OriginText::new(console.origin());
    Ok(Some(SignedChallenge {
        assertion: Assertion {
            credential_id: CredentialId::parse(text("passkey.credential")).map_err(unreadable)?,
            authenticator_data: Binary::parse(text("passkey.authenticatorData")).map_err(unreadable)?,
            client_data_json: Binary::parse(text("passkey.clientData")).map_err(unreadable)?,
            signature: Binary::parse(signature).map_err(unreadable)?,
        },
        nonce,
        origin: origin.map_err(|_| refused("The console's address is too long."))?,
    }))
}

/// A nonce in a form, drawn by a server of this store. A signature with it is accepted only once.
fn drawn(console: &Console, form: &QueryPairs, name: &str) -> EngineResult<Nonce> {
    let nonce = form.get(name).and_then(|text| Nonce::parse(text).ok());
    let other = || refused("This was signed too long ago, or for another console. Nothing was recorded.");
    let nonce = nonce.ok_or_else(other)?;
    match console.use_cases.drew_nonce(&nonce)? {
        true => Ok(nonce),
        false => Err(other()),
    }
}

/// Enrols the browser's new key, confirmed by an enrolled key if there is one.
pub(crate) fn enrol(console: &Console, form: &QueryPairs) -> EngineResult<()> {
    let wanted = to_enrol(console, form)?;
    drawn(console, form, "new.nonce")?;
    let agreed = signed(console, form)?;
    console.use_cases.enrol(&wanted, agreed.as_ref())
}

pub(crate) fn remove(console: &Console, form: &QueryPairs) -> EngineResult<()> {
    let agreed = signed(console, form)?.ok_or_else(|| {
        refused("Removing a passkey needs a passkey, and with it JavaScript. Nothing was recorded.")
    })?;
    console.use_cases.remove_passkey(&credential(form)?, &agreed)
}

fn to_enrol(console: &Console, form: &QueryPairs) -> EngineResult<KeyToEnrol> {
    let text = |name: &str| form.get(name).unwrap_or_default();
    let unreadable = "What the browser returned cannot be read. Nothing was recorded.";
    let nonce = Nonce::parse(text("new.nonce")).map_err(|_| refused(unreadable))?;
    let authenticator_data =
        Binary::<4096>::parse(text("new.authenticatorData")).map_err(|_| refused(unreadable))?;
    let client_data = Binary::<4096>::parse(text("new.clientData")).map_err(|_| refused(unreadable))?;
    let registration = Registration {
        authenticator_data: authenticator_data.bytes(),
        client_data_json: client_data.bytes(),
    };
    let from = ChallengeOrigin { origin: console.origin(), nonce: &nonce };
    let key = console.use_cases.new_key(registration, from)?;
    let name = text("name").trim();
    if name.is_empty() {
        return Err(refused("A passkey needs a name. Nothing was recorded."));
    }
    let name = KeyName::new(name).map_err(|_| refused("The name is too long. Nothing was recorded."))?;
    let replaces = form.get("replaces").filter(|text| !text.is_empty()).map(CredentialId::parse);
    let replaces = replaces.transpose().map_err(|_| refused(unreadable))?;
    Ok(KeyToEnrol { name, key, replaces })
}

fn credential(form: &QueryPairs) -> EngineResult<CredentialId> {
    CredentialId::parse(form.get("credential").unwrap_or_default())
        .map_err(|_| refused("There is no such passkey. Nothing was recorded."))
}

fn refused(message: &str) -> Box<ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, message, "Go back, load the page again and try it again.")
}
