//! Who acts: people and agents with a name and a role, their tokens, and how records name them.
//!
//! A token is shown once, when it is made. The store keeps only its digest, so that a reader of the store cannot act as
//! its owner (G113).

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::closed_set::closed_set;
use crate::digest::Sha256;
use crate::id::AccessTokenId;
use crate::limits::ACTOR_TEXT_BYTES_MAX;
use crate::name::PrincipalName;
use crate::text::BoundedText;
use crate::time::Timestamp;

closed_set! {
    "snake_case",
    /// What an actor may do. The table is in `core::access`.
    pub enum Role {
        /// Reads everything, changes nothing.
        Viewer,
        /// Works: starts runs and completes steps. Never decides what waits for a person.
        Agent,
        /// A person who decides: approves, rejects, answers, closes runs. Does not work.
        Approver,
        /// Everything, and the only role that deletes, imports, and changes settings and keys.
        Admin,
    }
}

closed_set! {
    "snake_case",
    /// What is done, as far as roles tell it apart.
    pub enum Act {
        Read,
        /// Starting runs, completing steps, saving notes.
        Work,
        /// What waits for a person: approving, rejecting, answering; closing a run, how far it may go, keeping a session.
        Decide,
        /// What concerns the whole store: deleting, importing, repairing, keys, tokens.
        Administer,
    }
}

/// Text about an actor that the actor did not choose, such as the name of a client.
pub type ActorText = BoundedText<ACTOR_TEXT_BYTES_MAX>;

/// Who caused a record, as far as it is known (G114). It says who acted, and proves no more than the token or the
/// account that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The name of the token, or of the user of the machine.
    pub name: PrincipalName,
    /// Absent for the user of a machine, whose rights are those of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The token that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<AccessTokenId>,
    /// The program that the agent runs in, as it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ActorText>,
    /// The machine, for a user of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<ActorText>,
}

impl fmt::Display for Actor {
    /// `ada (approver)`, `ada@laptop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.role, &self.host) {
            (Some(role), _) => write!(f, "{} ({})", self.name, role.as_str()),
            (None, Some(host)) => write!(f, "{}@{host}", self.name),
            (None, None) => write!(f, "{}", self.name),
        }
    }
}

/// A team member whose token was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: PrincipalName,
    pub role: Role,
    pub token_id: AccessTokenId,
}

/// On whose behalf the engine acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The user who runs this program. The operating system and the database decide what they may do. Records name
    /// them if the store is shared.
    Owner(Option<Actor>),
    /// A team member with a token, through a server.
    Member { principal: Principal, client: Option<ActorText> },
}

impl Caller {
    /// The actor that records name.
    pub fn actor(&self) -> Option<Actor> {
        match self {
            Self::Owner(actor) => actor.clone(),
            Self::Member { principal, client } => Some(Actor {
                name: principal.name.clone(),
                role: Some(principal.role),
                token_id: Some(principal.token_id),
                client: client.clone(),
                host: None,
            }),
        }
    }

    /// The same, acting through a program with this name.
    pub fn through(&self, name: &str) -> Self {
        let text = || Some(ActorText::clip(name)).filter(|text| !text.as_str().is_empty());
        match self {
            Self::Owner(None) => Self::Owner(None),
            Self::Owner(Some(actor)) => Self::Owner(Some(Actor { client: text(), ..actor.clone() })),
            Self::Member { principal, .. } => Self::Member { principal: principal.clone(), client: text() },
        }
    }

    /// Their role; `None` for the user who runs the program.
    pub fn role(&self) -> Option<Role> {
        match self {
            Self::Owner(_) => None,
            Self::Member { principal, .. } => Some(principal.role),
        }
    }
}

/// A token as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessToken {
    pub id: AccessTokenId,
    pub name: PrincipalName,
    pub role: Role,
    /// Of the secret part.
    pub digest: Sha256,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// The secret part of a token: 32 random bytes. Printed only once.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct AccessSecret([u8; 32]);

impl AccessSecret {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What the store keeps. The secret has 256 random bits, so a plain digest cannot be reversed.
    pub fn digest(&self) -> Sha256 {
        Sha256::of_parts(&[b"workrail/access-token", &self.0])
    }
}

impl fmt::Debug for AccessSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessSecret(..)")
    }
}

/// What a client sends: `tok_ID.SECRET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentedToken {
    pub id: AccessTokenId,
    pub secret: AccessSecret,
}

impl PresentedToken {
    /// Parses exactly what `reveal` writes; anything else is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let mut bytes = BASE64URL_NOPAD.decode(secret.as_bytes()).ok()?;
        let secret = <[u8; 32]>::try_from(bytes.as_slice()).ok().map(AccessSecret);
        bytes.zeroize();
        Some(Self { id: AccessTokenId::parse(id).ok()?, secret: secret? })
    }

    /// The token itself, shown once to its owner.
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.id, BASE64URL_NOPAD.encode(&self.secret.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> PresentedToken {
        PresentedToken { id: AccessTokenId::from_bits([7; 10]), secret: AccessSecret::new([9; 32]) }
    }

    #[test]
    fn only_a_token_as_shown_is_parsed() {
        let shown = token().reveal();
        assert_eq!(PresentedToken::parse(&shown), Some(token()));
        let (id, secret) = shown.split_once('.').unwrap();
        let bad = [
            String::new(),
            id.to_owned(),
            format!("{id}."),
            format!(".{secret}"),
            format!("{id}.{}", &secret[1..]),
            format!("{id}.{secret}A"),
            format!("{id}.{secret}="),
            format!("{} {secret}", id),
            format!("{}.{secret}", id.to_uppercase()),
            format!("x{shown}"),
            format!("{shown}\n"),
        ];
        for bad in bad {
            assert_eq!(PresentedToken::parse(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", token().secret), "AccessSecret(..)");
    }

    #[test]
    fn a_record_names_the_member_and_the_program() {
        let principal = Principal {
            name: PrincipalName::parse("ada").unwrap(),
            role: Role::Agent,
            token_id: AccessTokenId::from_bits([7; 10]),
        };
        let caller = Caller::Member { principal, client: None }.through("claude-code 2.1");
        let actor = caller.actor().unwrap();
        let written = serde_json::to_string(&actor).unwrap();
        assert_eq!(
            written,
            r#"{"name":"ada","role":"agent","tokenId":"tok_0w3ge1r70w3ge1r7","client":"claude-code 2.1"}"#
        );
        assert_eq!(serde_json::from_str::<Actor>(&written).unwrap(), actor);
        assert_eq!(actor.to_string(), "ada (agent)");
        assert_eq!(Caller::Owner(None).through("x").actor(), None);
    }
}
