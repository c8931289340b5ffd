//! What must hold in a cell, computed from the undamaged store.

mod diagnosis;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workrail_testkit::home::Home;

use crate::advice;
use crate::commands::{About, Command, CommandResult, Compare, Effect, End, NO_SERVER};
use crate::damages::Damage;
use crate::differences::{first_difference, is_same_but_for_titles, parts_of, short};
use crate::files::{Role, Target};
use crate::template::{GIT_SOURCE, Template};
use crate::usable::{is_same_keyring, is_well_formed_secret, only_last_group_is_lost};

/// Words by which an answer shows that something is wrong.
const LABELS: [&str; 9] = [
    "damag",
    "corrupt",
    "missing",
    "cannot",
    "unread",
    "unhealthy",
    "not readable",
    "not have its digest",
    "refus",
];

/// One target with one damage, before a command runs.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) template: &'a Template,
    pub(crate) baseline: &'a BTreeMap<String, CommandResult>,
    pub(crate) target: &'a Target,
    pub(crate) damage: Damage,
    /// Whether the program has lost something, as far as it can read.
    pub(crate) harms: bool,
    needed_by: BTreeSet<String>,
    /// Only the last group of the manifest is lost: the next writer rolls it forward (G13).
    pub(crate) pending: bool,
    /// The keyring is intact, or from another store, which cannot be detected.
    pub(crate) has_usable_keys: bool,
    /// The HTTP secret is absent, or well-formed.
    has_usable_secret: bool,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        template: &'a Template,
        baseline: &'a BTreeMap<String, CommandResult>,
        target: &'a Target,
        damage: Damage,
        home: &Home,
    ) -> Self {
        let harms = damage.harms(target, template, home);
        let needed_by = if harms { target.needed_by(template) } else { BTreeSet::new() };
        let pending = target.name == "manifest" && harms && only_last_group_is_lost(template, target, home);
        // Tokens are not stored, so nothing in a store distinguishes its own keyring from another's.
        let has_usable_keys = target.name == "keyring"
            && harms
            && !damage.is_forbidden()
            && (damage == Damage::Swapped || is_same_keyring(template, target, home));
        let has_usable_secret =
            target.role == Role::HttpSecret && !damage.is_forbidden() && is_well_formed_secret(target, home);
        Self {
            template,
            baseline,
            target,
            damage,
            harms,
            needed_by,
            pending,
            has_usable_keys,
            has_usable_secret,
        }
    }

    pub(crate) fn is_sound(&self, session: &str) -> bool {
        !self.needed_by.contains(session)
    }

    /// Whether nothing shows that there was a session: as if it had been deleted, or its start interrupted before
    /// anything was recorded. Only caches keep a list of sessions besides their folders.
    pub(crate) fn is_gone(&self) -> bool {
        match self.target.name {
            "session folder" => self.is_emptied(),
            // If it is missing, that is visible: a store has it from its first session on.
            "sessions folder" => self.damage == Damage::Empty,
            _ => false,
        }
    }

    pub(crate) fn is_emptied(&self) -> bool {
        matches!(self.damage, Damage::Missing | Damage::Empty)
    }

    /// Whether a command lists the workflows of all sources.
    fn lists_workflows(&self, command: &Command) -> bool {
        ["list", "list tool"].contains(&command.name.as_str())
    }

    fn names_source(&self, answer: &CommandResult) -> bool {
        answer.output.contains(GIT_SOURCE)
    }

    fn holds_passkeys(&self) -> bool {
        self.target.name == "keys folder"
    }

    /// Whether only a change of permissions brings the file back.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.damage.is_forbidden()
    }

    /// How many events of the victim a repair must keep; `None` if there is nothing to start from.
    pub(crate) fn events_safe(&self) -> Option<usize> {
        let session = &self.template.victim.session;
        let all = self.template.events(session).len();
        if self.is_forbidden() {
            return None;
        }
        match (self.target.role, self.target.name) {
            (Role::Log, "manifest") => Some(all),
            (Role::Log, "middle segment" | "last segment") => self.events_left(),
            (Role::Content, "shared snapshot" | "own snapshot" | "pinned workflow") => Some(all),
            _ => None,
        }
    }

    /// How many events of the victim precede a damaged segment.
    fn events_left(&self) -> Option<usize> {
        if !matches!(self.target.name, "middle segment" | "last segment") {
            return None;
        }
        self.target.path.file_name()?.to_str()?.split('-').next()?.parse().ok()
    }

    fn mentions_harm(&self, answer: &CommandResult) -> bool {
        let name = self.target.path.file_name().unwrap().to_string_lossy();
        if self.target.role == Role::Base {
            // The names of these folders are ordinary words.
            let problems = answer.value["problems"].as_array().cloned().unwrap_or_default();
            return problems
                .iter()
                .any(|problem| problem["subject"].as_str().unwrap_or_default().contains(&*name));
        }
        let output = &answer.output;
        output.contains(&self.template.victim.session) || output.contains(name.trim_end_matches(".json"))
    }

    /// Checks an answer on its own.
    pub(crate) fn judge(&self, command: &Command, answer: &CommandResult) -> Vec<String> {
        let mut found = Vec::new();
        match &answer.end {
            End::Stopped(what) | End::Broken(what) => return vec![format!("broke: {}", short(what))],
            End::Refused(code) => found.extend(self.complete_error(code, answer)),
            End::Done | End::Problems => {}
        }
        if self.target.role == Role::Settings && self.harms {
            found.extend(self.settings(command, answer));
            return found;
        }
        match command.compare {
            Compare::Diagnosis => found.extend(self.judge_diagnosis(command, answer)),
            Compare::Whole | Compare::Success | Compare::PerSession => {
                found.extend(self.compared(command, answer));
            }
        }
        found
    }

    fn complete_error(&self, code: &str, answer: &CommandResult) -> Option<String> {
        if code == NO_SERVER {
            // Without settings or its own folder there is nothing to serve; everything else fails only the call.
            let may = matches!(self.target.role, Role::Settings | Role::Base);
            return (!may).then(|| format!("no server: {}", short(&answer.output)));
        }
        if code == "none" || code.starts_with("INTERNAL") {
            return Some(format!("error without a useful code: {code}: {}", short(&answer.output)));
        }
        let error = answer.value.get("error").unwrap_or(&answer.value);
        let is_empty = |field: &str| error[field].as_str().is_none_or(str::is_empty);
        if is_empty("message") {
            return Some(format!("{code} without a message"));
        }
        let leads_on =
            !is_empty("suggestion") || !advice::of(answer).is_empty() || advice::names_a_fix(&answer.output);
        (!leads_on).then(|| format!("{code} without a next step: {}", short(&answer.output)))
    }

    /// Invalid settings are refused with their location, never half-used (G82).
    fn settings(&self, command: &Command, answer: &CommandResult) -> Option<String> {
        if command.name == "doctor" && matches!(answer.end, End::Refused(_)) {
            return Some(format!("doctor gives up: {}", short(&answer.output)));
        }
        let told = answer.output.contains("config.toml");
        // With one bit changed, a source may have another address, which is not known to be wrong.
        let is_unreachable =
            command.name.starts_with("sources") && answer.end == End::Problems && self.names_source(answer);
        let as_before = answer.end == self.baseline[&command.name].end || is_unreachable;
        (!told && !as_before).then(|| format!("the settings are not named: {}", short(&answer.output)))
    }

    fn compared(&self, command: &Command, answer: &CommandResult) -> Vec<String> {
        let before = &self.baseline[&command.name];
        if self.may_refuse(command, answer) && matches!(answer.end, End::Refused(_) | End::Problems) {
            return Vec::new();
        }
        match &command.about {
            About::Session(session) if !self.is_sound(session) => self.harmed(command, answer, before),
            About::Session(_) | About::Elsewhere => self.equal(command, answer, before),
            About::Store if command.compare == Compare::Success => self.equal(command, answer, before),
            About::Store => self.each_sound_session(command, answer, before),
        }
    }

    fn equal(&self, command: &Command, answer: &CommandResult, before: &CommandResult) -> Vec<String> {
        // Effects of a request, and what a lost key would sign, may be missing from an answer.
        let is_part = match self.target.role {
            // Without their folder there are no passkeys; `doctor` reports that the keys are gone.
            Role::Keys if command.name == "passkeys" => self.holds_passkeys() && self.is_emptied(),
            Role::Keys if command.name == "tokens" => self.holds_passkeys() && self.is_emptied(),
            Role::Keys => self.harms && command.signs,
            Role::UserRequest => {
                self.harms && command.about == About::Session(self.template.victim.session.clone())
            }
            // Without the file there are no tokens.
            Role::AccessTokens if command.name == "tokens" => self.is_emptied(),
            // What cannot be read is not trusted.
            Role::Trust => self.harms && command.name == "trust list",
            Role::Source => self.harms && self.lists_workflows(command) && self.names_source(answer),
            Role::Log | Role::Content | Role::Base | Role::Settings => false,
            Role::HttpSecret | Role::Passkeys | Role::AccessTokens => false,
            Role::Lock | Role::Backup | Role::BackupMarker | Role::Disposable => false,
        };
        // A request that exists but cannot be read is reported to the user who asks for it.
        let is_lost = self.target.name == "control" && self.harms && !self.is_emptied();
        if is_lost && command.name.starts_with("prefs show") && answer.value != before.value {
            let output = answer.output.to_lowercase();
            if !LABELS.iter().any(|label| output.contains(label)) {
                return vec![format!("a request is lost without a word: {}", short(&answer.output))];
            }
        }
        if answer.end != before.end {
            return vec![format!("was {:?}, is {:?}: {}", before.end, answer.end, short(&answer.output))];
        }
        match command.compare == Compare::Success || is_part || answer.value == before.value {
            true => Vec::new(),
            false => {
                vec![format!("answers otherwise: {}", first_difference(&before.value, &answer.value, ""))]
            }
        }
    }

    /// A harmed session answers as before, reports the damage, or is refused with a typed error. It never advances,
    /// and what is left of it can be read (G20).
    fn harmed(&self, command: &Command, answer: &CommandResult, before: &CommandResult) -> Vec<String> {
        let is_log = self.target.role == Role::Log && !self.pending;
        if is_log && command.effect == Effect::Writes && answer.end == End::Done {
            return vec!["a damaged session advanced".to_owned()];
        }
        if let Some(left) = self.events_left()
            && ["sessions log", "sessions show herons", "report herons"]
                .iter()
                .any(|name| command.name.starts_with(name))
        {
            let shown = answer.value["events"].as_array().map_or(left, Vec::len);
            if answer.end != End::Done || shown < left {
                return vec![format!(
                    "{left} events can be read and are not shown: {}",
                    short(&answer.output)
                )];
            }
        }
        // The log is intact: its contents are shown, whatever content is lost.
        let has_log = self.target.role == Role::Content
            || self.target.role == Role::Base && self.target.name != "sessions folder";
        let reads_log = ["sessions log", "sessions show", "sessions tree", "report"]
            .iter()
            .any(|name| command.name.starts_with(name));
        if has_log && reads_log && answer.end != End::Done {
            return vec![format!("the log is whole and is not shown: {}", short(&answer.output))];
        }
        // Notes, artifacts and earlier replies are a run's past: it can continue without them.
        let is_past = ["notes blob", "artifact blob", "stored reply"].contains(&self.target.name);
        let continues =
            ["look", "resume", "advance", "checkpoint"].iter().any(|name| command.name.starts_with(name));
        if is_past && continues && answer.end != End::Done {
            return vec![format!("the run does not continue: {}", short(&answer.output))];
        }
        match &answer.end {
            End::Done if self.pending || command.compare == Compare::Success => Vec::new(),
            End::Done if is_same_but_for_titles(&before.value, &answer.value) => Vec::new(),
            End::Done | End::Problems => {
                let output = answer.output.to_lowercase();
                match LABELS.iter().any(|label| output.contains(label)) {
                    true => Vec::new(),
                    false => vec![format!(
                        "answers otherwise without a word about damage: {}",
                        first_difference(&before.value, &answer.value, "")
                    )],
                }
            }
            End::Refused(_) if self.pending => vec![format!("refused: {}", short(&answer.output))],
            End::Refused(_) | End::Stopped(_) | End::Broken(_) => Vec::new(),
        }
    }

    /// The field that an intact session cannot show without the file; all others must be there.
    fn lost_field(&self, command: &Command) -> Option<&'static str> {
        match (self.target.role, self.target.name) {
            // Without keys there is no token for the next call.
            (Role::Keys, _) if self.harms && command.signs => Some("nextCall"),
            (Role::UserRequest, "keep") if self.harms => Some("isKept"),
            _ => None,
        }
    }

    fn each_sound_session(
        &self,
        command: &Command,
        answer: &CommandResult,
        before: &CommandResult,
    ) -> Vec<String> {
        let mut found = Vec::new();
        if matches!(answer.end, End::Refused(_)) {
            return self.refused_for_all(command, answer).into_iter().collect();
        }
        for session in self.template.sessions().into_iter().filter(|session| self.is_sound(session)) {
            let (mut old, mut new) = (parts_of(session, &before.value), parts_of(session, &answer.value));
            if let Some(name) = self.lost_field(command) {
                for part in [&mut old, &mut new].into_iter().filter_map(Value::as_array_mut).flatten() {
                    part.as_object_mut().map(|part| part.remove(name));
                }
            }
            // The fewer runs can be offered, the more room is left for others.
            let is_offered_instead = command.name.starts_with("resume")
                && !self.needed_by.is_empty()
                && old.as_array().is_some_and(Vec::is_empty);
            if old != new && !is_offered_instead {
                found.push(format!("{session} answers otherwise: {}", first_difference(&old, &new, "")));
            }
        }
        let names_all = command.name == "sessions list";
        if names_all && self.target.role == Role::Log && self.harms && !self.is_gone() {
            let victim = &self.template.victim.session;
            if !answer.output.contains(victim) {
                found.push(format!("{victim} is silently absent"));
            }
        }
        found
    }

    /// Only a question about one run may fail, and only because that run is harmed.
    fn refused_for_all(&self, command: &Command, answer: &CommandResult) -> Option<String> {
        let output = answer.output.to_lowercase();
        let labelled = LABELS.iter().any(|label| output.contains(label));
        let asked = [&self.template.victim, &self.template.sharing].into_iter().any(|run| {
            command.name == format!("resume by label {}", run.word) && !self.is_sound(&run.session)
        });
        match asked && (labelled || self.target.role == Role::Log) {
            true => None,
            false => Some(format!("refused for all: {}", short(&answer.output))),
        }
    }
}
