//! Which commands may be refused, because what they need is damaged.

use super::Case;
use crate::commands::{About, Command, CommandResult, Effect, End};
use crate::damages::Damage;
use crate::files::Role;

/// Whether an answer blames the keys: a refusal by its code, a report of problems by its subjects.
fn blames_keys(answer: &CommandResult) -> bool {
    let problems = answer.value["problems"].as_array().into_iter().flatten();
    let mut subjects = problems.filter_map(|problem| problem["subject"].as_str());
    match &answer.end {
        End::Refused(code) => ["STORE_KEYRING_UNUSABLE", "TOKEN_BAD_SIGNATURE"].contains(&code.as_str()),
        End::Problems => subjects.any(|subject| subject.starts_with("keys/")),
        End::Done | End::Stopped(_) | End::Broken(_) => false,
    }
}

impl Case<'_> {
    /// Whether this command may be refused here, because what it needs is damaged.
    pub(super) fn may_refuse(&self, command: &Command, answer: &CommandResult) -> bool {
        let writes = command.effect != Effect::Looks;
        let about_victim = command.about == About::Session(self.template.victim.session.clone());
        let file = self.target.path.file_name().unwrap().to_string_lossy().into_owned();
        match self.target.role {
            // It lists what it could not search or remove.
            _ if command.name.starts_with("purge")
                && (self.is_forbidden()
                    || self.damage == Damage::ReadOnly && answer.end == End::Problems) =>
            {
                answer.output.contains(&file)
            }
            // It finds the text of the session that it removed in the copy.
            Role::Log if command.name.starts_with("purge") && self.damage == Damage::Swapped => {
                answer.output.contains(&self.template.victim.session)
            }
            _ if command.name == "unkeep" && self.may_refuse_unkeep(answer) => true,
            // Another store's keys sign as well: only tokens signed by ours are refused.
            // Its files cannot be replaced.
            Role::Keys if self.damage == Damage::ReadOnly && self.holds_passkeys() => {
                ["rotate", "token"].iter().any(|name| command.name.starts_with(name))
                    && answer.output.contains("keys")
            }
            Role::Keys if command.name.starts_with("passkeys") && self.holds_passkeys() => {
                self.harms && answer.output.contains("keys/passkeys")
            }
            Role::Keys if command.name.starts_with("token") => self.harms && self.holds_passkeys(),
            Role::Keys if self.has_usable_keys => command.presents_token() && blames_keys(answer),
            Role::Keys => {
                let needs_it = command.signs || command.name == "passkeys" && self.holds_passkeys();
                self.harms && needs_it && blames_keys(answer)
            }
            Role::Lock => {
                let may = self.target.name != "session lock" || about_victim;
                // A replay makes sure that what it repeats is durable; `verify` reports a lock that cannot be taken.
                let locks = ["replay", "verify"].iter().any(|name| command.name.starts_with(name)) || writes;
                locks && may && self.damage.blocks_a_lock() && answer.output.contains(&file)
            }
            // An unreadable request may ask for less autonomy: the advance waits until it can be read.
            Role::UserRequest if self.is_forbidden() => {
                let needs_it = command.name.starts_with("prefs") || command.name.starts_with("advance");
                needs_it && about_victim && answer.output.contains(&file)
            }
            // What is in its place is no file of ours, and is not removed.
            Role::UserRequest if writes && about_victim && self.damage == Damage::OtherKind => {
                answer.output.contains(&file)
            }
            Role::UserRequest if command.name == "unkeep" => self.harms && answer.output.contains(&file),
            Role::UserRequest => self.harms && command.name.starts_with("prefs show") && about_victim,
            // An unreadable backup may need any content.
            Role::Backup => self.harms && ["gc", "purge"].iter().any(|name| command.name.starts_with(name)),
            // A log that cannot be written is still readable.
            Role::Log if self.damage == Damage::ReadOnly => {
                // A replay first makes sure that what it repeats is durable.
                (writes || command.name.starts_with("replay")) && about_victim
            }
            Role::Base => self.harms || writes && self.damage == Damage::ReadOnly,
            // An unreadable session may need any content.
            Role::Log | Role::Content => self.harms && command.name.starts_with("gc"),
            Role::HttpSecret => self.harms && command.name.contains("http secret"),
            Role::Passkeys => self.harms && command.name.starts_with("passkeys"),
            Role::AccessTokens => self.harms && command.name.starts_with("token"),
            Role::Trust => self.harms && command.name.starts_with("trust"),
            Role::Source => self.harms && command.name.starts_with("sources"),
            Role::BackupMarker => false,
            // If the original cannot be backed up, no client's file is changed (G111).
            Role::Disposable if ["install", "uninstall"].contains(&command.name.as_str()) => {
                self.target.path.starts_with("data/clients") && answer.output.contains("data/clients")
            }
            Role::Settings | Role::Disposable => false,
        }
    }

    /// It needs the session's folder, its lock, and a log that may be read, even if it is damaged.
    fn may_refuse_unkeep(&self, answer: &CommandResult) -> bool {
        let is_named = answer.output.contains(&self.template.victim.session);
        match self.target.name {
            "session folder" => is_named && (self.harms || self.damage == Damage::ReadOnly),
            "session lock" => is_named && self.damage.blocks_a_lock(),
            "manifest" | "events folder" => is_named && self.is_forbidden(),
            _ => false,
        }
    }
}
