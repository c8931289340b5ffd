//! The settings of a user: a closed set of keys, and what each one means.
//!
//! A key knows its type, its default, its documentation and when a change takes effect, so that the file's reader,
//! `workrail config` and the reference all agree (G82).

mod compare;
mod git;
mod value;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantNames;

use crate::approval::RequiredProof;
use crate::canonical::to_canonical;
use crate::closed_set::closed_set;
use crate::digest::Sha256;
use crate::preferences::{Autonomy, Preferences, RiskPolicy};
use crate::token::TokenEncoding;

pub use compare::{SettingDifference, differences};
pub use git::{
    CheckedSource, GitProblem, GitRef, GitSource, GitSources, GitTransport, GitUrl, SYNC_HOURS_DEFAULT,
    is_source_name,
};
pub use value::{SettingValue, ValueKind, ValueProblem};

/// How many days old a finished session may get before `workrail store gc` removes it.
pub(crate) const RETENTION_DAYS_DEFAULT: u32 = 90;

/// How long a user may take to answer in the chat. The agent's call waits that long.
pub(crate) const CHAT_WAIT_SECONDS_DEFAULT: u32 = 300;

/// Context keys that usually hold secrets: reports and lists never show their values, and
/// `workrail session export --redact` drops them unless `export.redact_keys` says otherwise.
pub const SECRET_KEYS: [&str; 17] = [
    "*password*",
    "*passwd*",
    "*passphrase*",
    "*secret*",
    "*token*",
    "*apikey*",
    "*accesskey*",
    "*privatekey*",
    "*credential*",
    "*bearer*",
    "*cookie*",
    "*jwt*",
    "auth",
    "*oauth*",
    "*authheader*",
    "*authorization*",
    "*basicauth*",
];

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $spelling:literal),+ $(,)?) => {
        /// Every setting there is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum Key {
            $($(#[$doc])* #[serde(rename = $spelling)] $name,)+
        }

        impl Key {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The key as written in the file: the table, a dot, the name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $spelling),+ }
            }
        }
    };
}

// Sorted by spelling: tables and digests come out in this order.
keys! {
    ApprovalsChat = "approvals.chat",
    ApprovalsChatWait = "approvals.chat_wait_seconds",
    ApprovalsRefuseDescendants = "approvals.refuse_descendants",
    ApprovalsRequire = "approvals.require",
    ApprovalsRequireIn = "approvals.require_in",
    DataDir = "data_dir",
    ExportRedactKeys = "export.redact_keys",
    LogFilter = "log.filter",
    Autonomy = "preferences.autonomy",
    RiskPolicy = "preferences.risk_policy",
    RepliesStructured = "replies.structured",
    RepliesTextInData = "replies.text_in_data",
    RetentionTtl = "retention.ttl_days",
    SourceGit = "sources.git",
    SourcePaths = "sources.paths",
    SourcePlugins = "sources.plugins",
    Store = "store",
    TokenEncoding = "tokens.encoding",
    ToolsCheckpoint = "tools.checkpoint",
    ToolsExecution = "tools.execution",
    ToolsResume = "tools.resume",
    ToolsStartSession = "tools.start_session",
}

/// Why a running server does not see a change before it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestartTrigger {
    ToolSet,
    ToolSchema,
    WorkflowSources,
    Process,
}

impl RestartTrigger {
    /// For people.
    pub fn what(self) -> &'static str {
        match self {
            Self::ToolSet => "the list of tools",
            Self::ToolSchema => "the input or output of tools",
            Self::WorkflowSources => "where workflows come from",
            Self::Process => "what a server reads only at startup",
        }
    }
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// With the next call or command.
    Live,
    /// When the server is restarted: clients load the tools only once.
    AtRestart(RestartTrigger),
}

impl Key {
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.as_str() == text)
    }

    /// What a person sees in place of a value when the key has none.
    pub fn when_unset(self) -> &'static str {
        if self == Self::Store { "(none: the data directory)" } else { "(chosen automatically)" }
    }

    /// What it does, in a sentence or two.
    pub fn what(self) -> &'static str {
        match self {
            Self::ApprovalsChat => {
                "Whether a step that waits for the user asks them in the agent's chat, with a form for the question or \
                 the approval. Hooks of the agent's program can answer too, so an answer does not prove that a person \
                 gave it. Read from the user's own settings file only, not from one that `--config` or \
                 `WORKRAIL_CONFIG` names."
            }
            Self::ApprovalsChatWait => {
                "How many seconds a form in the chat stays open. The agent's call waits that long; then the step stays \
                 blocked. In the stateless MCP revision no call waits, and a later answer is accepted if the step \
                 still waits for it. Read from the user's own settings file only."
            }
            Self::ApprovalsRefuseDescendants => {
                "Whether to refuse approvals and raised autonomy from a terminal that the agent's program started, and \
                 approvals in its chat. A hurdle, not a proof: an agent with a shell can get around it."
            }
            Self::ApprovalsRequire => {
                "The least proof that an approval, or raising a run's autonomy, needs. With `terminal`, a label typed at a \
                 terminal or a form in the console is enough; with `passkey`, only a passkey counts. The stricter of the settings in effect and the user's own settings file \
                 applies. A workflow can also require a passkey."
            }
            Self::ApprovalsRequireIn => {
                "Repositories, as absolute paths of their root folders, whose runs accept only a passkey, whatever \
                 `approvals.require` says. A run belongs to every repository in which its session was worked on."
            }
            Self::DataDir => "Where sessions, content and keys are kept, as an absolute path.",
            Self::ExportRedactKeys => {
                "Context keys whose values `workrail session export --redact` leaves out. `*` matches any characters; \
                 case is ignored."
            }
            Self::LogFilter => "What is logged to stderr, as `tracing` filter directives.",
            Self::Autonomy => {
                "How far runs go on their own by default: stop for the user, stop only for what only the \
                 user can give, or never stop and record gaps."
            }
            Self::RiskPolicy => {
                "Which minor warnings replies show in runs without a policy of their own: `conservative` all, `balanced` not \
                 missing references, `aggressive` also not missing preferred capabilities. Gaps are recorded in any case."
            }
            Self::RepliesStructured => {
                "Whether replies also have `structuredContent`, and tools an output schema. Only for programs that \
                 need them: hosts that find structured content show it to the model instead of the text."
            }
            Self::RepliesTextInData => {
                "Whether the data of a reply, in `_meta`, repeats the text that the model reads. Switch it off for programs \
                 that show the model all of a result, `_meta` included: google-genai, google-adk, and Gemini CLI for errors."
            }
            Self::RetentionTtl => {
                "How many days after its last event a finished or closed session may be removed by `workrail store gc`."
            }
            Self::SourceGit => {
                "Git repositories with workflow files, by name: `[sources.git.NAME]` with `url`, `ref`, `folder`, \
                 `sync_hours` and `allow_local`."
            }
            Self::SourcePaths => "More folders with workflow files; later ones win.",
            Self::SourcePlugins => "Folders with a `workrail-plugin.json` that names their workflow files.",
            Self::Store => {
                "The database that a team's sessions are kept in instead of the data directory: \
                 `postgres://USER@HOST/DATABASE`, with `tenant=NAME` and `password_file=/PATH` as options. A password is never \
                 part of it."
            }
            Self::TokenEncoding => {
                "Which tokens agents get: `v2` (short) or `v1` (long). Both are always accepted."
            }
            Self::ToolsCheckpoint => "Whether `checkpoint_workflow` is offered.",
            Self::ToolsExecution => "Whether tools that change anything are offered at all.",
            Self::ToolsResume => "Whether `resume_session` is offered.",
            Self::ToolsStartSession => "Whether `start_session` is offered.",
        }
    }

    pub fn kind(self) -> ValueKind {
        match self {
            Self::DataDir => ValueKind::AbsolutePath,
            Self::Store => ValueKind::StoreAddress,
            Self::ApprovalsRequireIn | Self::ExportRedactKeys | Self::SourcePaths | Self::SourcePlugins => {
                ValueKind::List
            }
            Self::SourceGit => ValueKind::GitSources,
            Self::LogFilter => ValueKind::Text,
            Self::ApprovalsRequire => ValueKind::Choice(<RequiredProof as VariantNames>::VARIANTS),
            Self::Autonomy => ValueKind::Choice(<Autonomy as VariantNames>::VARIANTS),
            Self::RiskPolicy => ValueKind::Choice(<RiskPolicy as VariantNames>::VARIANTS),
            Self::ApprovalsChatWait | Self::RetentionTtl => ValueKind::Count,
            // The default first.
            Self::TokenEncoding => {
                ValueKind::Choice(&const { [TokenEncoding::V2.as_str(), TokenEncoding::V1.as_str()] })
            }
            Self::ApprovalsChat
            | Self::ApprovalsRefuseDescendants
            | Self::RepliesStructured
            | Self::RepliesTextInData
            | Self::ToolsCheckpoint
            | Self::ToolsExecution
            | Self::ToolsResume
            | Self::ToolsStartSession => ValueKind::Switch,
        }
    }

    /// The default; `None` if it depends on the machine.
    pub fn default(self) -> Option<SettingValue> {
        let text = |text: &str| Some(SettingValue::Text(text.to_owned()));
        match self {
            Self::DataDir | Self::Store => None,
            Self::ApprovalsChatWait => Some(SettingValue::Count(CHAT_WAIT_SECONDS_DEFAULT)),
            Self::ExportRedactKeys => {
                Some(SettingValue::List(SECRET_KEYS.iter().map(|key| (*key).to_owned()).collect()))
            }
            Self::ApprovalsRequire => text(RequiredProof::default().as_str()),
            Self::LogFilter => text("warn"),
            Self::Autonomy => text(Autonomy::Guided.as_str()),
            Self::RiskPolicy => text(RiskPolicy::Conservative.as_str()),
            Self::RetentionTtl => Some(SettingValue::Count(RETENTION_DAYS_DEFAULT)),
            Self::SourceGit => Some(SettingValue::Git(GitSources::new())),
            Self::ApprovalsRequireIn | Self::SourcePaths | Self::SourcePlugins => {
                Some(SettingValue::List(Vec::new()))
            }
            Self::TokenEncoding => text(TokenEncoding::default().as_str()),
            Self::RepliesTextInData | Self::ToolsCheckpoint | Self::ToolsExecution | Self::ToolsResume => {
                Some(SettingValue::Switch(true))
            }
            Self::ApprovalsChat
            | Self::ApprovalsRefuseDescendants
            | Self::RepliesStructured
            | Self::ToolsStartSession => Some(SettingValue::Switch(false)),
        }
    }

    pub fn applies(self) -> Applies {
        match self {
            Self::ApprovalsChat
            | Self::ApprovalsChatWait
            | Self::ApprovalsRefuseDescendants
            | Self::ApprovalsRequire
            | Self::ApprovalsRequireIn
            | Self::ExportRedactKeys
            | Self::Autonomy
            | Self::RiskPolicy
            | Self::RetentionTtl => Applies::Live,
            Self::DataDir | Self::Store | Self::LogFilter | Self::RepliesTextInData | Self::TokenEncoding => {
                Applies::AtRestart(RestartTrigger::Process)
            }
            Self::SourceGit | Self::SourcePaths | Self::SourcePlugins => {
                Applies::AtRestart(RestartTrigger::WorkflowSources)
            }
            Self::RepliesStructured => Applies::AtRestart(RestartTrigger::ToolSchema),
            Self::ToolsCheckpoint | Self::ToolsExecution | Self::ToolsResume | Self::ToolsStartSession => {
                Applies::AtRestart(RestartTrigger::ToolSet)
            }
        }
    }
}

closed_set! {
    "snake_case",
    /// Who set a value; later ones win.
    pub enum ValueOrigin {
        Default,
        File,
        Environment,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub value: SettingValue,
    pub origin: ValueOrigin,
}

/// The settings in effect: every key that has a value, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Settings(BTreeMap<Key, Setting>);

impl Default for Settings {
    fn default() -> Self {
        Self::layered([])
    }
}

impl Settings {
    /// The defaults, overridden by what is given. A value that its key does not accept is ignored.
    pub fn layered(given: impl IntoIterator<Item = (Key, SettingValue, ValueOrigin)>) -> Self {
        let defaults = Key::ALL.iter().filter_map(|key| {
            let value = key.default()?;
            Some((*key, Setting { value, origin: ValueOrigin::Default }))
        });
        let mut settings: BTreeMap<Key, Setting> = defaults.collect();
        for (key, value, origin) in given {
            let stronger = settings.get(&key).is_none_or(|known| known.origin <= origin);
            if stronger && key.kind().accepts(&value) {
                settings.insert(key, Setting { value, origin });
            }
        }
        Self(settings)
    }

    pub fn get(&self, key: Key) -> Option<&Setting> {
        self.0.get(&key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Setting)> {
        self.0.iter().map(|(key, setting)| (*key, setting))
    }

    pub fn is_on(&self, key: Key) -> bool {
        matches!(self.get(key), Some(Setting { value: SettingValue::Switch(true), .. }))
    }

    pub fn text(&self, key: Key) -> Option<&str> {
        match &self.get(key)?.value {
            SettingValue::Text(text) => Some(text),
            SettingValue::Switch(_)
            | SettingValue::Count(_)
            | SettingValue::List(_)
            | SettingValue::Git(_) => None,
        }
    }

    pub fn list(&self, key: Key) -> &[String] {
        match self.get(key).map(|setting| &setting.value) {
            Some(SettingValue::List(list)) => list,
            Some(
                SettingValue::Text(_)
                | SettingValue::Switch(_)
                | SettingValue::Count(_)
                | SettingValue::Git(_),
            )
            | None => &[],
        }
    }

    /// The git repositories that are registered, by name.
    pub fn git_sources(&self) -> GitSources {
        match self.get(Key::SourceGit).map(|setting| &setting.value) {
            Some(SettingValue::Git(sources)) => sources.clone(),
            Some(
                SettingValue::Text(_)
                | SettingValue::Switch(_)
                | SettingValue::Count(_)
                | SettingValue::List(_),
            )
            | None => GitSources::new(),
        }
    }

    pub fn retention_days(&self) -> u32 {
        self.count(Key::RetentionTtl).unwrap_or(RETENTION_DAYS_DEFAULT)
    }

    /// How long a form in the chat stays open; at least a second, so that it can be answered at all.
    pub fn chat_wait_seconds(&self) -> u32 {
        self.count(Key::ApprovalsChatWait).unwrap_or(CHAT_WAIT_SECONDS_DEFAULT).max(1)
    }

    fn count(&self, key: Key) -> Option<u32> {
        match &self.get(key)?.value {
            SettingValue::Count(count) => Some(*count),
            SettingValue::Text(_)
            | SettingValue::Switch(_)
            | SettingValue::List(_)
            | SettingValue::Git(_) => None,
        }
    }

    pub fn preferences(&self) -> Preferences {
        let autonomy = self.text(Key::Autonomy).and_then(Autonomy::parse);
        let risk_policy = self.text(Key::RiskPolicy).and_then(RiskPolicy::parse);
        let unset = Preferences::default();
        Preferences {
            autonomy: autonomy.unwrap_or(unset.autonomy),
            risk_policy: risk_policy.unwrap_or(unset.risk_policy),
        }
    }

    /// What makes an approval count.
    pub fn required_proof(&self) -> RequiredProof {
        self.text(Key::ApprovalsRequire).and_then(RequiredProof::parse).unwrap_or_default()
    }

    pub fn token_encoding(&self) -> TokenEncoding {
        self.text(Key::TokenEncoding).and_then(TokenEncoding::parse).unwrap_or_default()
    }

    /// The digest of all values, wherever they were set: servers with the same digest behave the same.
    pub fn hash(&self) -> Sha256 {
        let values: serde_json::Map<String, serde_json::Value> =
            self.iter().map(|(key, setting)| (key.as_str().to_owned(), setting.value.to_json())).collect();
        let bytes = to_canonical(&serde_json::Value::Object(values))
            .expect("texts, switches and small counts always have a canonical form");
        Sha256::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_has_its_keys_kind_and_keys_are_sorted() {
        for key in Key::ALL {
            assert!(key.default().is_none_or(|value| key.kind().accepts(&value)), "{}", key.as_str());
            assert_eq!(Key::parse(key.as_str()), Some(*key));
        }
        assert!(Key::ALL.is_sorted_by_key(|key| key.as_str().to_owned()));
    }

    #[test]
    fn the_environment_wins_over_the_file_in_either_order() {
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let file = (Key::TokenEncoding, text("v1"), ValueOrigin::File);
        let environment = (Key::TokenEncoding, text("v2"), ValueOrigin::Environment);
        for given in [[file.clone(), environment.clone()], [environment, file]] {
            let settings = Settings::layered(given);
            assert_eq!(settings.token_encoding(), TokenEncoding::V2);
            assert_eq!(
                settings.get(Key::TokenEncoding).map(|found| found.origin),
                Some(ValueOrigin::Environment)
            );
        }
    }

    #[test]
    fn the_hash_depends_on_values_and_not_on_their_origin() {
        let unset = Settings::default();
        let said =
            Settings::layered([(Key::TokenEncoding, SettingValue::Text("v2".to_owned()), ValueOrigin::File)]);
        assert_eq!(unset.hash(), said.hash());
        let other =
            Settings::layered([(Key::TokenEncoding, SettingValue::Text("v1".to_owned()), ValueOrigin::File)]);
        assert_ne!(unset.hash(), other.hash());
    }
}
