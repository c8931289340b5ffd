//! Passkeys: enrolling, removing and using them. The store's log is read and checked anew every time (G97, G98).

use workrail_core::access;
use workrail_core::decide::approve::recorded_reason;
use workrail_core::decide::proof::ApprovalRule;
use workrail_core::passkey::{Statement, registered};
use workrail_core::project::SessionState;
use workrail_core::report::{Signatures, is_signed, signatures};
use workrail_model::approval::{ApprovalDecision, RequiredProof};
use workrail_model::compiled::{CompiledWorkflow, Confirmation};
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Context, Event};
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::PrincipalName;
use workrail_model::passkey::{
    CredentialId, KeyName, KeyOrigin, Nonce, PasskeyChange, PasskeyProof, PreferenceProof, SignedChallenge,
};
use workrail_model::preferences::PreferenceChange;
use workrail_model::reason::UserOnlyDependencyReason;
use workrail_model::snapshot::PendingStep;
use workrail_model::team::{Act, Caller};
use workrail_ports::passkeys::PasskeyLogError;

use crate::approve::{WaitingStep, accepted_answers};
use crate::find::SessionOrRun;
use crate::mint::random;
use crate::session_access::Reading;
use crate::token::KeyUse;
use crate::{Engine, Store, error};

pub use workrail_core::interpret::AskedProof;
pub use workrail_core::passkey::{Enrolment, KeyEnd, LogDamage, NewKey, Passkeys, Trust, fingerprint};

/// How often appending a change is tried in all: another process may be first.
const APPEND_TRIES: usize = 3;

/// The console that asks for a passkey, and the nonce it drew for this use.
#[derive(Clone, Copy, Debug)]
pub struct ChallengeOrigin<'a> {
    /// `http://localhost:PORT`, or the address of a team's server.
    pub origin: &'a str,
    pub nonce: &'a Nonce,
}

/// What a browser is asked to get signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    pub challenge: Sha256,
    /// The keys that may sign it.
    pub credentials: Vec<CredentialId>,
}

/// What a browser returned for a new key.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    pub authenticator_data: &'a [u8],
    pub client_data_json: &'a [u8],
}

/// A key to be enrolled.
#[derive(Clone, Debug)]
pub struct KeyToEnrol {
    pub name: KeyName,
    pub key: NewKey,
    pub replaces: Option<CredentialId>,
}

/// What is decided with a passkey about a waiting run.
#[derive(Clone, Copy, Debug)]
pub enum SignedAct<'a> {
    Decide { decision: ApprovalDecision, reason: Option<&'a str> },
    Answer { values: &'a Context },
}

/// The keys with which a decision on one step is checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApprovalKeys {
    required: RequiredProof,
    /// `None` if the log is damaged.
    keys: Option<Passkeys>,
}

impl ApprovalKeys {
    pub(crate) fn rule(&self) -> ApprovalRule<'_> {
        ApprovalRule::new(self.required, self.keys.as_ref())
    }

    pub(crate) fn asked(&self, workflow: &CompiledWorkflow, pending: &PendingStep) -> AskedProof {
        self.rule().asked(workflow, pending)
    }
}

impl<S: Store> Engine<S> {
    /// Whose passkeys the caller uses: a member has their own, whichever token of that name they use.
    pub(crate) fn passkey_owner(&self) -> Option<&PrincipalName> {
        match self.caller() {
            Caller::Owner(_) => None,
            Caller::Member { principal, .. } => Some(&principal.name),
        }
    }

    /// A nonce for one use of a passkey, accepted by every server of this store for some minutes.
    pub fn draw_nonce(&self) -> Result<Nonce, Box<ErrorEnvelope>> {
        self.signer.refresh(KeyUse::CreateIfNew)?;
        let keyring = self
            .signer
            .keyring()
            .ok_or_else(|| error::broken_invariant("keys that were made can be read"))?;
        let random = random(&*self.environment.entropy)?;
        let nonce = Nonce::new(access::nonce(&keyring, random, self.now_epoch_s()));
        nonce.map_err(|problem| error::internal(&problem.to_string()))
    }

    /// Whether a server of this store drew the nonce recently. The log ensures that it is not used twice.
    pub fn drew_nonce(&self, nonce: &Nonce) -> Result<bool, Box<ErrorEnvelope>> {
        self.signer.refresh(KeyUse::ReadOnly)?;
        let keyring = self.signer.keyring();
        Ok(keyring.is_some_and(|keys| access::nonce_holds(&keys, nonce.bytes(), self.now_epoch_s())))
    }

    /// The store's passkeys, or what is wrong with its log.
    pub fn passkeys(&self) -> Result<Result<Passkeys, LogDamage>, Box<ErrorEnvelope>> {
        let stored = self.store.passkey_log().map_err(error::passkey_log)?;
        Ok(Passkeys::read(&stored.log, stored.head.as_deref()))
    }

    fn sound_passkeys(&self) -> Result<Passkeys, Box<ErrorEnvelope>> {
        self.passkeys()?.map_err(|damage| error::passkey_log_damaged(&damage))
    }

    /// How a decision at this node is checked. The log is read only if a decision is asked for.
    pub(crate) fn approval_keys(
        &self,
        facts: &SessionState,
        node: NodeId,
        workflow: &CompiledWorkflow,
        pending: &PendingStep,
    ) -> Result<ApprovalKeys, Box<ErrorEnvelope>> {
        let asks = workflow.step(&pending.step_id).is_some_and(|step| {
            let has_gate = matches!(step.confirmation, Confirmation::Gate { .. });
            let needs_approval = |reason| reason == UserOnlyDependencyReason::NeedsUserApproval;
            has_gate || step.user_dependencies.iter().any(|dependency| needs_approval(dependency.reason))
        });
        let is_decided = facts.approval(node, &pending.step_id).is_some();
        if !asks && !is_decided {
            return Ok(ApprovalKeys::default());
        }
        let required = self.required_proof(facts);
        Ok(ApprovalKeys { required, keys: self.passkeys().ok().and_then(Result::ok) })
    }

    /// What the settings require in this session.
    fn required_proof(&self, facts: &SessionState) -> RequiredProof {
        match self.is_in_passkey_folder(facts) {
            true => RequiredProof::Passkey,
            false => self.environment.approvals.required_proof(),
        }
    }

    /// Whether the session was ever worked on in a repository for which the settings require passkeys. A later call
    /// from another folder changes nothing, and neither does removing the repository's `.git`.
    fn is_in_passkey_folder(&self, facts: &SessionState) -> bool {
        let own = facts.repositories();
        if own.is_empty() {
            return false;
        }
        self.environment.approvals.passkey_folders().iter().any(|folder| {
            let named = Sha256::of(folder.trim_end_matches('/').as_bytes());
            let found = self.repository_of(folder).ok().flatten();
            own.contains(&named) || found.is_some_and(|found| own.contains(&found))
        })
    }

    /// The challenge for an act on a run's waiting step.
    pub fn challenge_for_run(
        &self,
        run: RunId,
        seen: &WaitingStep,
        act: SignedAct<'_>,
        from: ChallengeOrigin<'_>,
    ) -> Result<Challenge, Box<ErrorEnvelope>> {
        match act {
            SignedAct::Decide { decision, reason } => {
                let reason = reason.map(recorded_reason);
                let reason = reason.as_ref().map(|reason| reason.as_str());
                self.challenge(&seen.statement(run, decision, reason), from)
            }
            SignedAct::Answer { values } => {
                // As they are recorded.
                let values = accepted_answers(&seen.questions, values.clone())?;
                let values = values.as_map();
                self.challenge(&Statement::Answer { run, node: seen.node, values }, from)
            }
        }
    }

    fn challenge(
        &self,
        statement: &Statement<'_>,
        from: ChallengeOrigin<'_>,
    ) -> Result<Challenge, Box<ErrorEnvelope>> {
        let keys = self.sound_passkeys()?;
        let credentials =
            keys.enrolled_by(self.passkey_owner()).map(|enrolment| enrolment.credential.clone()).collect();
        Ok(Challenge { challenge: statement.challenge(from.origin, from.nonce), credentials })
    }

    /// The challenge for creating a new key, valid for this enrolment only.
    pub fn challenge_for_new_key(&self, from: ChallengeOrigin<'_>) -> Sha256 {
        Sha256::of_parts(&[b"workrail/passkey-new/1", from.origin.as_bytes(), from.nonce.bytes()])
    }

    /// The key in a browser's response to that challenge.
    pub fn new_key(
        &self,
        registration: Registration<'_>,
        from: ChallengeOrigin<'_>,
    ) -> Result<NewKey, Box<ErrorEnvelope>> {
        let Registration { authenticator_data, client_data_json } = registration;
        let challenge = self.challenge_for_new_key(from);
        registered(authenticator_data, client_data_json, challenge, from.origin)
            .map_err(|problem| error::passkey_log_not_changed(&problem.to_string()))
    }

    /// The challenge with which an enrolled key agrees to another one; `None` if no key is enrolled.
    pub fn challenge_to_enrol(
        &self,
        wanted: &KeyToEnrol,
        from: ChallengeOrigin<'_>,
    ) -> Result<Option<Challenge>, Box<ErrorEnvelope>> {
        let challenge = self.challenge(&wanted.statement(self.passkey_owner()), from)?;
        Ok(Some(challenge).filter(|challenge| !challenge.credentials.is_empty()))
    }

    /// Enrols a key. If one is already enrolled, it must have agreed.
    pub fn enrol(
        &self,
        wanted: &KeyToEnrol,
        agreed: Option<&SignedChallenge>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let KeyToEnrol { name, key, replaces } = wanted.clone();
        let owner = self.passkey_owner();
        self.append_change(|keys| {
            match agreed {
                Some(signed) => {
                    let statement = wanted.statement(owner);
                    keys.accept_from(owner, &statement, signed).map_err(error::passkey_refused)?;
                }
                None if keys.has_any_of(owner) => return Err(error::agreement_needed()),
                None => {}
            }
            if replaces
                .as_ref()
                .is_some_and(|old| !keys.enrolled_by(owner).any(|enrolment| enrolment.credential == *old))
            {
                return Err(error::passkey_log_not_changed("the key that it replaces is not enrolled"));
            }
            Ok(PasskeyChange::Enrolled {
                name: name.clone(),
                owner: owner.cloned(),
                credential_id: key.credential.clone(),
                public_key: key.public_key.clone(),
                counter: key.counter,
                replaces: replaces.clone(),
                authorized_by: agreed.cloned(),
            })
        })
    }

    /// The challenge with which an enrolled key agrees to the removal of one.
    pub fn challenge_to_remove(
        &self,
        credential: &CredentialId,
        from: ChallengeOrigin<'_>,
    ) -> Result<Challenge, Box<ErrorEnvelope>> {
        self.challenge(&Statement::Remove { credential }, from)
    }

    pub fn remove_passkey(
        &self,
        credential: &CredentialId,
        agreed: &SignedChallenge,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.append_change(|keys| {
            let statement = Statement::Remove { credential };
            keys.accept_from(self.passkey_owner(), &statement, agreed).map_err(error::passkey_refused)?;
            Ok(PasskeyChange::Removed { credential_id: credential.clone(), authorized_by: agreed.clone() })
        })
    }

    /// Removes all keys without the agreement of any. That stays in the log, and in every later decision.
    ///
    /// A damaged log is moved aside: its intact part is kept, so that decisions by its keys can still be checked.
    pub fn reset_passkeys(&self) -> Result<(), Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        let stored = self.store.passkey_log().map_err(error::passkey_log)?;
        if Passkeys::read(&stored.log, stored.head.as_deref()).is_ok() {
            return self.append_change(|_| Ok(PasskeyChange::Reset { damaged: None }));
        }
        let (keys, sound_bytes) = Passkeys::sound_part(&stored.log);
        let change = PasskeyChange::Reset { damaged: Some(Sha256::of(&stored.log)) };
        let line = keys.line(change, self.environment.clock.now());
        let line = line.map_err(|problem| error::passkey_log_not_changed(&problem.problem))?;
        self.store.replace_passkeys(&stored, sound_bytes, &line).map_err(error::passkey_log)
    }

    /// Whether raising the autonomy of new runs, in any folder, requires a passkey.
    pub fn raising_new_runs_needs_passkey(&self) -> bool {
        let approvals = &self.environment.approvals;
        approvals.required_proof() == RequiredProof::Passkey || !approvals.passkey_folders().is_empty()
    }

    /// Whether raising a run's autonomy requires a passkey, as approving in it does (G63).
    pub fn raising_needs_passkey(&self, session: SessionId, run: RunId) -> Result<bool, Box<ErrorEnvelope>> {
        self.reading().look(session, |facts| {
            let rule = ApprovalKeys { required: self.required_proof(facts), keys: None };
            let run = facts.run(run).ok_or_else(|| error::broken_invariant("a listed run is folded"))?;
            Ok(rule.rule().raising_needs_passkey(&*self.content().workflow(run.workflow_hash)?))
        })
    }

    pub fn challenge_for_preferences(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        from: ChallengeOrigin<'_>,
    ) -> Result<Challenge, Box<ErrorEnvelope>> {
        self.challenge(&Statement::Preferences { session, changes }, from)
    }

    /// Raises the autonomy of a session's open runs, as signed by a passkey. The use is recorded in the passkey log.
    pub fn set_preferences_with_passkey(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        signed: &SignedChallenge,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let prove = || {
            let key = self.record_use(&Statement::Preferences { session, changes }, signed)?;
            Ok(Some(PreferenceProof { signed: signed.clone(), session, changes: changes.to_vec(), key }))
        };
        self.request_preferences(SessionOrRun { session, run: None }, changes, prove).map(drop)
    }

    /// The challenge for a setting that gives agents more autonomy.
    pub fn challenge_for_setting(
        &self,
        key: &str,
        value: Option<&str>,
        from: ChallengeOrigin<'_>,
    ) -> Result<Challenge, Box<ErrorEnvelope>> {
        self.challenge(&Statement::Setting { key, value }, from)
    }

    /// Records that a passkey agreed to a setting.
    pub fn agree_to_setting(
        &self,
        key: &str,
        value: Option<&str>,
        signed: &SignedChallenge,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.record_use(&Statement::Setting { key, value }, signed).map(drop)
    }

    /// The challenge for trusting the commands that a digest names (G121).
    pub fn challenge_for_trust(
        &self,
        commands: Sha256,
        from: ChallengeOrigin<'_>,
    ) -> Result<Challenge, Box<ErrorEnvelope>> {
        self.challenge(&Statement::Trust { commands }, from)
    }

    /// Records that a passkey agreed to exactly these commands.
    pub fn agree_to_trust(
        &self,
        commands: Sha256,
        signed: &SignedChallenge,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.record_use(&Statement::Trust { commands }, signed).map(drop)
    }

    /// Judges an assertion about a run, records its use, and returns what the event keeps of it.
    pub(crate) fn use_passkey(
        &self,
        statement: &Statement<'_>,
        signed: &SignedChallenge,
        run: RunId,
    ) -> Result<PasskeyProof, Box<ErrorEnvelope>> {
        let key = self.record_use(statement, signed)?;
        Ok(PasskeyProof { signed: signed.clone(), run, key })
    }

    fn record_use(
        &self,
        statement: &Statement<'_>,
        signed: &SignedChallenge,
    ) -> Result<KeyOrigin, Box<ErrorEnvelope>> {
        let mut key = None;
        self.append_change(|keys| {
            let accepted = keys.accept_from(self.passkey_owner(), statement, signed);
            let accepted = accepted.map_err(error::passkey_refused)?;
            key = Some(accepted.key);
            Ok(accepted.used)
        })?;
        key.ok_or_else(|| error::broken_invariant("an assertion that was accepted has a key"))
    }

    /// Appends the change derived from the current keys; if another process was first, it is derived again.
    fn append_change(
        &self,
        mut change: impl FnMut(&Passkeys) -> Result<PasskeyChange, Box<ErrorEnvelope>>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        let mut tries = APPEND_TRIES;
        loop {
            let stored = self.store.passkey_log().map_err(error::passkey_log)?;
            let keys = Passkeys::read(&stored.log, stored.head.as_deref())
                .map_err(|damage| error::passkey_log_damaged(&damage))?;
            let line = keys
                .line(change(&keys)?, self.environment.clock.now())
                .map_err(|problem| error::passkey_log_not_changed(&problem.problem))?;
            tries -= 1;
            match self.store.append_passkey(&stored, &line) {
                Err(PasskeyLogError::Changed) if tries > 0 => {}
                appended => return appended.map_err(error::passkey_log),
            }
        }
    }
}

impl KeyToEnrol {
    fn statement<'a>(&'a self, owner: Option<&'a PrincipalName>) -> Statement<'a> {
        Statement::Enrol {
            name: self.name.as_str(),
            owner,
            credential: &self.key.credential,
            public_key: &self.key.public_key,
            replaces: self.replaces.as_ref(),
        }
    }
}

impl Reading<'_> {
    /// The validity of a session's passkey signatures. The log is read only if there are any.
    pub(crate) fn signatures(&self, facts: &SessionState, events: &[Event]) -> Signatures {
        if !events.iter().any(is_signed) {
            return Signatures::default();
        }
        let stored = self.passkeys.passkey_log().ok();
        let keys = stored.and_then(|stored| Passkeys::read(&stored.log, stored.head.as_deref()).ok());
        signatures(facts, events, keys.as_ref())
    }
}
