//! What a person signs: the digest of exactly what they decide, so that an assertion is valid for nothing else (G97).

use serde_json::{Map, Value, json};
use workrail_model::approval::ApprovalDecision;
use workrail_model::canonical::value_to_canonical;
use workrail_model::digest::Sha256;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::{PrincipalName, StepId};
use workrail_model::passkey::{CredentialId, Nonce, PublicKey};
use workrail_model::preferences::PreferenceChange;

/// What a person decides with a passkey.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    /// A decision on what a step submitted.
    Decision {
        run: RunId,
        node: NodeId,
        step: &'a StepId,
        submitted: Option<Sha256>,
        decision: ApprovalDecision,
        /// As recorded.
        reason: Option<&'a str>,
    },
    /// Answers to the questions of a step.
    Answer {
        run: RunId,
        node: NodeId,
        values: &'a Map<String, Value>,
    },
    /// The autonomy of a session's open runs.
    Preferences {
        session: SessionId,
        changes: &'a [PreferenceChange],
    },
    Enrol {
        name: &'a str,
        owner: Option<&'a PrincipalName>,
        credential: &'a CredentialId,
        public_key: &'a PublicKey,
        replaces: Option<&'a CredentialId>,
    },
    Remove {
        credential: &'a CredentialId,
    },
    /// A protection that the settings turn off.
    Setting {
        key: &'a str,
        value: Option<&'a str>,
    },
    /// The commands that may run as checks of a workspace, by the digest of exactly what was shown.
    Trust {
        commands: Sha256,
    },
}

impl Statement<'_> {
    /// The challenge that an authenticator signs. It is recomputed from the record, so every part is in the record.
    pub fn challenge(&self, origin: &str, nonce: &Nonce) -> Sha256 {
        let statement = self.to_json();
        // Values of an event are canonical JSON. A statement without a canonical form is never recorded, and its own text
        // keeps its challenge apart from all others.
        let bytes = value_to_canonical(&statement).unwrap_or_else(|_| statement.to_string().into_bytes());
        Sha256::of_parts(&[b"workrail/passkey-challenge/1", &bytes, origin.as_bytes(), nonce.bytes()])
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Decision { run, node, step, submitted, decision, reason } => json!({
                "about": "decision", "run": run, "node": node, "step": step, "submitted": submitted,
                "decision": decision, "reason": reason,
            }),
            Self::Answer { run, node, values } => {
                json!({ "about": "answer", "run": run, "node": node, "values": values })
            }
            Self::Preferences { session, changes } => {
                json!({ "about": "preferences", "session": session, "changes": changes })
            }
            Self::Enrol { name, owner, credential, public_key, replaces } => {
                let mut statement = json!({
                    "about": "enrol", "name": name, "credential": credential, "publicKey": public_key,
                    "replaces": replaces,
                });
                // Keys of a machine's user have no owner, and were signed before owners existed.
                if let Some(owner) = owner {
                    statement["owner"] = json!(owner);
                }
                statement
            }
            Self::Remove { credential } => json!({ "about": "remove", "credential": credential }),
            Self::Setting { key, value } => json!({ "about": "setting", "key": key, "value": value }),
            Self::Trust { commands } => json!({ "about": "trust", "commands": commands }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broke: all statements without a canonical form had the same challenge, so that a signature of one was valid for
    /// every other.
    #[test]
    fn statements_without_a_canonical_form_have_different_challenges() {
        let nonce = Nonce::new(vec![7; 32]).unwrap();
        let challenge = |number: u64| {
            let values = Map::from_iter([("size".to_owned(), json!(number))]);
            let (run, node) = (RunId::from_bits([1; 10]), NodeId::from_bits([2; 10]));
            Statement::Answer { run, node, values: &values }.challenge("http://localhost:1", &nonce)
        };
        assert!(value_to_canonical(&json!(u64::MAX)).is_err());
        assert_ne!(challenge(u64::MAX), challenge(u64::MAX - 1));
        assert_eq!(challenge(u64::MAX), challenge(u64::MAX));
    }
}
