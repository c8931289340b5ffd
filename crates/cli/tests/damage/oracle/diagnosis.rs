//! What the commands that look for damage must say: `verify`, `doctor`, a backup.

use serde_json::Value;

use super::{Case, LABELS};
use crate::commands::{About, Command, CommandResult, End};
use crate::damages::Damage;
use crate::differences::short;
use crate::files::Role;

impl Case<'_> {
    pub(super) fn judge_diagnosis(&self, command: &Command, answer: &CommandResult) -> Vec<String> {
        let is_truth = matches!(self.target.role, Role::Log | Role::Content | Role::Base);
        let truth = is_truth && self.harms;
        match (&command.about, command.name.as_str()) {
            (_, "verify") => self.judge_verify(truth, answer),
            (_, "doctor") => self.judge_doctor(answer),
            (_, "keys") => Vec::new(),
            (_, "backup again") if self.target.role == Role::BackupMarker => self.judge_marker(answer),
            // The backup has an intact copy, so it lacks nothing; `verify` finds the damage.
            (_, "backup again")
                if matches!(self.target.role, Role::Content | Role::Base) && answer.end == End::Done =>
            {
                Vec::new()
            }
            (_, "backup" | "backup again" | "copy") => self.judge_backup(answer),
            (_, "sources health") => self.judge_sources(answer),
            (About::Session(session), _) if self.is_sound(session) => {
                match answer.end == End::Done || self.may_refuse(command, answer) {
                    true => Vec::new(),
                    false => vec![format!("{session} is sound, and it says: {}", short(&answer.output))],
                }
            }
            (_, name) if name.starts_with("verify one") && !self.pending && answer.end == End::Done => {
                vec!["says that a damaged session is sound".to_owned()]
            }
            (About::Session(_) | About::Store | About::Elsewhere, _) => Vec::new(),
        }
    }

    /// Whether `verify` reports a problem of this very file.
    fn is_a_subject(&self, answer: &CommandResult) -> bool {
        let name = self.target.path.file_name().unwrap().to_string_lossy();
        let mut problems = answer.value["problems"].as_array().into_iter().flatten();
        problems.any(|problem| problem["subject"] == *name)
    }

    fn judge_verify(&self, truth: bool, answer: &CommandResult) -> Vec<String> {
        if let End::Refused(_) = answer.end {
            return vec![format!("verify gives up: {}", short(&answer.output))];
        }
        let mut found = Vec::new();
        if self.target.role == Role::Passkeys && self.harms && !answer.output.contains("passkeys.") {
            found.push(format!("does not name the passkey log: {}", short(&answer.output)));
        }
        // `doctor` reports permissions.
        if self.target.role == Role::AccessTokens
            && self.harms
            && self.damage != Damage::Missing
            && !self.is_forbidden()
            && !answer.output.contains("access-tokens.json")
        {
            found.push(format!("does not name the access tokens: {}", short(&answer.output)));
        }
        if truth && !self.is_gone() && !self.mentions_harm(answer) {
            found.push(format!("does not name the damage: {}", short(&answer.output)));
        }
        let may_be_named = match self.target.role {
            Role::Backup => true,
            Role::Lock => answer.output.contains(&*self.target.path.file_name().unwrap().to_string_lossy()),
            Role::Log | Role::Content | Role::Base | Role::HttpSecret => false,
            // Without usable keys no token is accepted, and without the counter nothing is recorded.
            Role::Keys | Role::Passkeys | Role::AccessTokens => self.harms,
            Role::Disposable => self.target.name.starts_with("activity") && self.is_a_subject(answer),
            Role::Settings | Role::Trust | Role::Source | Role::UserRequest | Role::BackupMarker => false,
        };
        if !truth && answer.end == End::Problems && !may_be_named {
            found.push(format!("calls a sound store damaged: {}", short(&answer.output)));
        }
        for problem in answer.value["problems"].as_array().into_iter().flatten() {
            let what = problem["subject"].as_str().unwrap_or_default();
            if self.template.sessions().contains(&what) && self.is_sound(what) {
                found.push(format!("calls {what} damaged: {problem}"));
            }
        }
        found
    }

    /// A backup of an intact store succeeds; one of a damaged store reports what it lacks.
    fn judge_backup(&self, answer: &CommandResult) -> Vec<String> {
        let truth = matches!(self.target.role, Role::Log | Role::Content | Role::Base) && self.harms;
        let output = answer.output.to_lowercase();
        let is_labelled = LABELS.iter().any(|label| output.contains(label));
        match &answer.end {
            End::Done if truth && !self.is_gone() && !self.pending && !is_labelled => {
                vec![format!("a backup of a damaged store says nothing: {}", short(&answer.output))]
            }
            End::Refused(_) | End::Problems if self.target.role == Role::Disposable || !self.harms => {
                match self.damage.blocks_a_lock() && self.target.role == Role::Lock {
                    true => Vec::new(),
                    false => vec![format!("a sound store was not backed up: {}", short(&answer.output))],
                }
            }
            End::Done | End::Refused(_) | End::Problems | End::Stopped(_) | End::Broken(_) => Vec::new(),
        }
    }

    /// A source that cannot be served is named, with its next step; the others are not affected.
    fn judge_sources(&self, answer: &CommandResult) -> Vec<String> {
        if let End::Refused(_) = answer.end {
            return vec![format!("gives up: {}", short(&answer.output))];
        }
        let before = self.baseline["sources health"].value["sources"].as_array().cloned().unwrap_or_default();
        let after = answer.value["sources"].as_array().cloned().unwrap_or_default();
        let changed = before.iter().filter(|source| !after.contains(source));
        let mut found: Vec<String> = changed
            .filter(|source| self.target.role != Role::Source || source["kind"] != "git")
            .map(|source| format!("another source is harmed: {}", short(&source.to_string())))
            .collect();
        let is_served = before.iter().zip(&after).all(|(old, new)| old["usable"] == new["usable"]);
        if !is_served && answer.end == End::Done {
            found.push(format!("a source that is not served is called healthy: {}", short(&answer.output)));
        }
        found
    }

    /// Nothing is written to a folder that is not a backup.
    fn judge_marker(&self, answer: &CommandResult) -> Vec<String> {
        let is_refused = matches!(answer.end, End::Refused(_));
        match is_refused == self.harms || self.is_forbidden() {
            true => Vec::new(),
            false => vec![format!("was {:?}: {}", answer.end, short(&answer.output))],
        }
    }

    fn judge_doctor(&self, answer: &CommandResult) -> Vec<String> {
        let named = match self.target.role {
            Role::Log => {
                !self.harms || self.is_gone() || answer.output.contains(&self.template.victim.session)
            }
            Role::Keys if self.harms && !self.has_usable_keys => {
                let findings = answer.value["findings"].as_array().cloned().unwrap_or_default();
                let names_them = |finding: &Value| {
                    let text = finding.to_string();
                    text.contains("keys/keyring.json") || text.contains("workrail store keys")
                };
                findings.iter().any(|finding| finding["level"] != "ok" && names_them(finding))
            }
            Role::HttpSecret if self.harms && !self.has_usable_secret => {
                answer.output.contains("workrail store keys http-secret")
            }
            Role::Passkeys if self.harms => {
                answer.output.contains("passkeys.jsonl") || answer.output.contains("passkeys.head")
            }
            Role::AccessTokens if self.harms && self.damage != Damage::Missing => {
                answer.output.contains("access-tokens.json")
            }
            Role::Keys | Role::HttpSecret | Role::Passkeys | Role::AccessTokens => true,
            Role::Content | Role::Base | Role::Settings | Role::Trust | Role::Source => true,
            Role::UserRequest | Role::Lock | Role::Backup | Role::BackupMarker | Role::Disposable => true,
        };
        match (&answer.end, named) {
            (End::Refused(_), _) => vec![format!("doctor gives up: {}", short(&answer.output))],
            (_, true) => Vec::new(),
            (_, false) => vec![format!("doctor does not name the damage: {}", short(&answer.output))],
        }
    }
}
