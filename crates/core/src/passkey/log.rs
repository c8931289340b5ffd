//! The passkey log of a store: which keys are enrolled, who agreed to that, and which assertions were accepted (G98).
//!
//! Every line contains the digest of the line before it, and every change after the first enrolment carries the
//! assertion that allowed it, so the whole log is checked again whenever it is read.

use std::collections::BTreeMap;

use serde_json::json;
use workrail_model::canonical::value_to_canonical;
use workrail_model::digest::Sha256;
use workrail_model::name::PrincipalName;
use workrail_model::passkey::{
    CredentialId, KeyName, KeyOrigin, PasskeyChange, PasskeyEntry, PublicKey, SignedChallenge,
};
use workrail_model::strict_json;
use workrail_model::time::Timestamp;

use super::assertion::{self, AssertionError};
use super::statement::Statement;

/// The version of an entry that this build writes and reads.
const VERSION: u32 = 1;

/// A line that does not follow from the lines before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LogDamage {
    pub line: usize,
    pub problem: String,
}

/// The lines of a log, without line breaks.
fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    log.split_inclusive(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// Why a key was trusted when it was enrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// None of the owner's keys had ever been enrolled, so the person at the console was trusted. No store whose keys
    /// were reset says so.
    FirstUse,
    /// There was no key to ask because the owner's last one had been removed, with its own agreement. No store whose
    /// keys were reset says so.
    AfterRemoval,
    /// There was no key to ask, and all keys of the store had been reset at a terminal before: also if this owner's were
    /// not among them, or were removed later. A reset stays visible (G98), and that of a damaged log may have lost lines,
    /// so it is unknown who had keys.
    AfterReset,
    /// An enrolled key agreed.
    Agreed,
}

/// Why a key is no longer accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    Removed,
    Replaced,
    Reset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    pub name: KeyName,
    /// The team member who owns it; `None` for the user of a machine.
    pub owner: Option<PrincipalName>,
    pub credential: CredentialId,
    pub public_key: PublicKey,
    /// The digest of the entry that enrolled it.
    pub entry: Sha256,
    pub at: Timestamp,
    pub trust: Trust,
    pub ended: Option<KeyEnd>,
    /// The last counter that the authenticator sent; 0 for those that do not count.
    counter: u32,
}

/// Why an assertion is not accepted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssertionRefusal {
    #[error("no such key is enrolled")]
    UnknownKey,
    #[error("the key was removed")]
    RemovedKey,
    #[error("the key belongs to someone else")]
    OthersKey,
    #[error("this assertion was used before")]
    Replayed,
    #[error("the counter of the key went back, so there may be a copy of it")]
    CounterWentBack,
    #[error(transparent)]
    Assertion(#[from] AssertionError),
}

/// An accepted assertion: what an event stores of its key, and the line that records its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub key: KeyOrigin,
    pub used: PasskeyChange,
}

/// What the log says about an accepted challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptedUse {
    /// The entry of the key that signed it.
    pub(super) entry: Sha256,
    /// How often all keys had been reset before.
    pub(super) resets: u32,
}

/// The keys of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passkeys {
    enrolments: Vec<Enrolment>,
    used: BTreeMap<Sha256, AcceptedUse>,
    resets: Vec<Timestamp>,
    last: Option<Sha256>,
}

impl Passkeys {
    /// Reads the whole log, and checks every line of it.
    pub fn fold(log: &[u8]) -> Result<Self, LogDamage> {
        let mut keys = Self::default();
        let lines = log.split_inclusive(|byte| *byte == b'\n');
        for (index, line) in lines.enumerate() {
            let damage = |problem: String| LogDamage { line: index + 1, problem };
            let line = line.strip_suffix(b"\n").ok_or_else(|| damage("it is incomplete".to_owned()))?;
            keys.apply(line).map_err(damage)?;
        }
        Ok(keys)
    }

    /// The same for a log with the separately stored record of its last line: lines missing at its end count as
    /// damage as well. The record may be one line behind, because the line is written first.
    pub fn read(log: &[u8], head: Option<&[u8]>) -> Result<Self, LogDamage> {
        let keys = Self::fold(log)?;
        let count = lines(log).count();
        let damage = |problem: &str| LogDamage { line: count + 1, problem: problem.to_owned() };
        let Some(head) = head else {
            return match count {
                0 | 1 => Ok(keys),
                _ => Err(damage("`keys/passkeys.head`, which names the last line, is missing")),
            };
        };
        let named = std::str::from_utf8(head).ok().and_then(|text| Sha256::parse(text.trim_end()).ok());
        let Some(named) = named else {
            return Err(damage("`keys/passkeys.head`, which names the last line, cannot be read"));
        };
        match lines(log).any(|line| Sha256::of(line) == named) {
            true => Ok(keys),
            false => Err(damage(
                "missing, although `keys/passkeys.head` names it: the log was cut off, deleted or replaced by another copy",
            )),
        }
    }

    /// How many bytes of a damaged log are intact, and the keys in them.
    pub fn sound_part(log: &[u8]) -> (Self, usize) {
        let (mut keys, mut bytes) = (Self::default(), 0);
        for line in log.split_inclusive(|byte| *byte == b'\n') {
            let mut next = keys.clone();
            let is_sound = line.strip_suffix(b"\n").is_some_and(|line| next.apply(line).is_ok());
            if !is_sound {
                break;
            }
            (keys, bytes) = (next, bytes + line.len());
        }
        (keys, bytes)
    }

    fn apply(&mut self, line: &[u8]) -> Result<(), String> {
        let value = strict_json::parse(line).map_err(|error| error.to_string())?;
        match value.get("v").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return Err(format!("it has version {version}, this build reads version {VERSION}"));
            }
            None => return Err("`v` must be a version number".to_owned()),
        }
        let entry: PasskeyEntry = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if entry.previous != self.last {
            let problem =
                "it does not follow from the line before it, so lines were changed, removed or added";
            return Err(problem.to_owned());
        }
        let digest = Sha256::of(line);
        self.change(entry, digest)?;
        self.last = Some(digest);
        Ok(())
    }

    fn change(&mut self, entry: PasskeyEntry, digest: Sha256) -> Result<(), String> {
        match entry.change {
            PasskeyChange::Enrolled {
                name,
                owner,
                credential_id,
                public_key,
                counter,
                replaces,
                authorized_by,
            } => {
                if self.active(&credential_id).is_some() {
                    return Err("the key is enrolled already".to_owned());
                }
                let statement = Statement::Enrol {
                    name: name.as_str(),
                    owner: owner.as_ref(),
                    credential: &credential_id,
                    public_key: &public_key,
                    replaces: replaces.as_ref(),
                };
                let trust = self.authorize(&statement, authorized_by.as_ref(), owner.as_ref())?;
                if let Some(replaced) = &replaces {
                    self.end(replaced, KeyEnd::Replaced, owner.as_ref())?;
                }
                self.enrolments.push(Enrolment {
                    name,
                    owner,
                    credential: credential_id,
                    public_key,
                    entry: digest,
                    at: entry.at,
                    trust,
                    ended: None,
                    counter,
                });
            }
            PasskeyChange::Removed { credential_id, authorized_by } => {
                let owner = self.active(&credential_id).and_then(|enrolment| enrolment.owner.clone());
                let statement = Statement::Remove { credential: &credential_id };
                self.authorize(&statement, Some(&authorized_by), owner.as_ref())?;
                self.end(&credential_id, KeyEnd::Removed, owner.as_ref())?;
            }
            PasskeyChange::Used { credential_id, challenge, counter } => {
                self.record_use(&credential_id, challenge, counter).map_err(|refusal| refusal.to_string())?;
            }
            PasskeyChange::Reset { .. } => {
                for enrolment in self.enrolments.iter_mut().filter(|enrolment| enrolment.ended.is_none()) {
                    enrolment.ended = Some(KeyEnd::Reset);
                }
                self.resets.push(entry.at);
            }
        }
        Ok(())
    }

    /// Why a change to an owner's keys is allowed: one of their keys agreed, whose use is recorded, or there was none to
    /// ask.
    fn authorize(
        &mut self,
        statement: &Statement<'_>,
        authorized_by: Option<&SignedChallenge>,
        owner: Option<&PrincipalName>,
    ) -> Result<Trust, String> {
        match authorized_by {
            Some(signed) => {
                let challenge = statement.challenge(signed.origin.as_str(), &signed.nonce);
                let counter = self.check(signed, challenge).map_err(|refusal| refusal.to_string())?;
                let credential = &signed.assertion.credential_id;
                self.check_owner(credential, owner).map_err(|refusal| refusal.to_string())?;
                self.record_use(credential, challenge, counter).map_err(|refusal| refusal.to_string())?;
                Ok(Trust::Agreed)
            }
            None if self.has_any_of(owner) => Err("no enrolled key agreed to this change".to_owned()),
            // For every owner: what a damaged log lost may have been about this one.
            None if !self.resets.is_empty() => Ok(Trust::AfterReset),
            None if !self.enrolments.iter().any(|enrolment| enrolment.owner.as_ref() == owner) => {
                Ok(Trust::FirstUse)
            }
            None => Ok(Trust::AfterRemoval),
        }
    }

    fn end(
        &mut self,
        credential: &CredentialId,
        ended: KeyEnd,
        owner: Option<&PrincipalName>,
    ) -> Result<(), String> {
        let is_meant = |enrolment: &&mut Enrolment| {
            enrolment.ended.is_none()
                && enrolment.credential == *credential
                && enrolment.owner.as_ref() == owner
        };
        let own = self.enrolments.iter_mut().find(is_meant);
        own.ok_or("it ends a key that is not enrolled")?.ended = Some(ended);
        Ok(())
    }

    fn active(&self, credential: &CredentialId) -> Option<&Enrolment> {
        self.enrolments
            .iter()
            .find(|enrolment| enrolment.ended.is_none() && enrolment.credential == *credential)
    }

    /// The counter of an assertion by a key that is enrolled now.
    fn check(&self, signed: &SignedChallenge, challenge: Sha256) -> Result<u32, AssertionRefusal> {
        let credential = &signed.assertion.credential_id;
        let is_known = self.enrolments.iter().any(|enrolment| enrolment.credential == *credential);
        let own = self.active(credential).ok_or(match is_known {
            true => AssertionRefusal::RemovedKey,
            false => AssertionRefusal::UnknownKey,
        })?;
        let counter = assertion::check(signed, challenge, &own.public_key)?;
        self.check_fresh(own, challenge, counter)?;
        Ok(counter)
    }

    /// An authenticator that counts sends a larger number every time; one that does not always sends 0.
    fn check_fresh(
        &self,
        enrolment: &Enrolment,
        challenge: Sha256,
        counter: u32,
    ) -> Result<(), AssertionRefusal> {
        if self.used.contains_key(&challenge) {
            return Err(AssertionRefusal::Replayed);
        }
        match counter > enrolment.counter || (counter == 0 && enrolment.counter == 0) {
            true => Ok(()),
            false => Err(AssertionRefusal::CounterWentBack),
        }
    }

    fn record_use(
        &mut self,
        credential: &CredentialId,
        challenge: Sha256,
        counter: u32,
    ) -> Result<(), AssertionRefusal> {
        let own = self.active(credential).ok_or(AssertionRefusal::UnknownKey)?;
        self.check_fresh(own, challenge, counter)?;
        let entry = own.entry;
        self.used.insert(challenge, AcceptedUse { entry, resets: self.resets.len() as u32 });
        let own = self.enrolments.iter_mut().find(|enrolment| enrolment.entry == entry);
        if let Some(own) = own {
            own.counter = counter;
        }
        Ok(())
    }

    fn check_owner(
        &self,
        credential: &CredentialId,
        owner: Option<&PrincipalName>,
    ) -> Result<(), AssertionRefusal> {
        let is_others = self.active(credential).is_some_and(|enrolment| enrolment.owner.as_ref() != owner);
        if is_others { Err(AssertionRefusal::OthersKey) } else { Ok(()) }
    }

    /// Checks an owner's assertion for a statement: a key counts only for its owner.
    pub fn accept_from(
        &self,
        owner: Option<&PrincipalName>,
        statement: &Statement<'_>,
        signed: &SignedChallenge,
    ) -> Result<Accepted, AssertionRefusal> {
        self.check_owner(&signed.assertion.credential_id, owner)?;
        self.accept(statement, signed)
    }

    /// Checks an assertion that a browser sent for a statement.
    pub fn accept(
        &self,
        statement: &Statement<'_>,
        signed: &SignedChallenge,
    ) -> Result<Accepted, AssertionRefusal> {
        let challenge = statement.challenge(signed.origin.as_str(), &signed.nonce);
        let counter = self.check(signed, challenge)?;
        let credential_id = signed.assertion.credential_id.clone();
        let own = self.active(&credential_id).ok_or(AssertionRefusal::UnknownKey)?;
        let key = KeyOrigin {
            name: own.name.clone(),
            public_key: own.public_key.clone(),
            enrolment: own.entry,
            resets: self.resets.len() as u32,
        };
        Ok(Accepted { key, used: PasskeyChange::Used { credential_id, challenge, counter } })
    }

    /// The line that appends a change, checked as every reader checks it.
    pub fn line(&self, change: PasskeyChange, at: Timestamp) -> Result<Vec<u8>, LogDamage> {
        let entry = PasskeyEntry { v: VERSION, previous: self.last, at, change };
        let damage = |problem: String| LogDamage { line: 0, problem };
        let mut line = value_to_canonical(&json!(entry)).map_err(|error| damage(error.to_string()))?;
        self.clone().apply(&line).map_err(damage)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Keys that are enrolled now.
    pub fn enrolled(&self) -> impl Iterator<Item = &Enrolment> {
        self.enrolments.iter().filter(|enrolment| enrolment.ended.is_none())
    }

    /// Every key that was ever enrolled, oldest first.
    pub fn all(&self) -> &[Enrolment] {
        &self.enrolments
    }

    /// An owner's keys that are enrolled now.
    pub fn enrolled_by(&self, owner: Option<&PrincipalName>) -> impl Iterator<Item = &Enrolment> {
        self.enrolled().filter(move |enrolment| enrolment.owner.as_ref() == owner)
    }

    pub fn has_any(&self) -> bool {
        self.enrolled().next().is_some()
    }

    pub fn has_any_of(&self, owner: Option<&PrincipalName>) -> bool {
        self.enrolled_by(owner).next().is_some()
    }

    /// When all keys were reset at a terminal.
    pub fn resets(&self) -> &[Timestamp] {
        &self.resets
    }

    pub(super) fn by_entry(&self, entry: Sha256) -> Option<&Enrolment> {
        self.enrolments.iter().find(|enrolment| enrolment.entry == entry)
    }

    /// The recorded use of this challenge, if any.
    pub(super) fn use_of(&self, challenge: Sha256) -> Option<AcceptedUse> {
        self.used.get(&challenge).copied()
    }
}
