//! The value of a setting, and parsing one from what a person typed.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::git::{self, GitSource, GitSources, is_source_name};

/// A longer list is not a sensible setting.
const LIST_ENTRIES_MAX: usize = 256;
/// More than a century, in days.
const COUNT_MAX: u32 = 36_500;
const TEXT_BYTES_MAX: usize = 4096;

/// Written as the plain JSON value it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingValue {
    Switch(bool),
    Count(u32),
    Text(String),
    List(Vec<String>),
    Git(GitSources),
}

/// The kind of value that a key accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Switch,
    Count,
    Text,
    AbsolutePath,
    StoreAddress,
    Choice(&'static [&'static str]),
    List,
    GitSources,
}

/// A value that its key does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {wanted}, not `{found}`")]
pub struct ValueProblem {
    pub wanted: String,
    pub found: String,
}

impl ValueKind {
    /// The description in messages and in the reference.
    pub fn what(self) -> String {
        match self {
            Self::Switch => "true or false".to_owned(),
            Self::Count => format!("a whole number from 0 to {COUNT_MAX}"),
            Self::Text => "a string".to_owned(),
            Self::AbsolutePath => "an absolute path".to_owned(),
            Self::StoreAddress => {
                "an address like postgres://USER@HOST/DATABASE without a password".to_owned()
            }
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::List => "a list of strings".to_owned(),
            Self::GitSources => {
                "tables `[sources.git.NAME]`, as `workrail workflow sources add git` writes them".to_owned()
            }
        }
    }

    pub fn accepts(self, value: &SettingValue) -> bool {
        let short = |text: &String| text.len() <= TEXT_BYTES_MAX && !text.contains('\0');
        match (self, value) {
            (Self::Switch, SettingValue::Switch(_)) => true,
            (Self::Count, SettingValue::Count(count)) => *count <= COUNT_MAX,
            (Self::Text, SettingValue::Text(text)) => short(text),
            (Self::AbsolutePath, SettingValue::Text(text)) => text.starts_with('/') && short(text),
            (Self::StoreAddress, SettingValue::Text(text)) => is_store_address(text) && short(text),
            (Self::Choice(words), SettingValue::Text(text)) => words.contains(&text.as_str()),
            (Self::List, SettingValue::List(entries)) => {
                entries.len() <= LIST_ENTRIES_MAX
                    && entries.iter().all(|entry| !entry.is_empty() && short(entry))
            }
            (Self::GitSources, SettingValue::Git(sources)) => {
                let short = |text: &String| text.len() <= git::TEXT_BYTES_MAX;
                sources.len() <= LIST_ENTRIES_MAX
                    && sources.iter().all(|(name, source)| {
                        let texts = [Some(&source.url), source.r#ref.as_ref(), source.folder.as_ref()];
                        is_source_name(name)
                            && source.sync_hours <= COUNT_MAX
                            && texts.into_iter().flatten().all(short)
                    })
            }
            (
                Self::Switch
                | Self::Count
                | Self::Text
                | Self::AbsolutePath
                | Self::StoreAddress
                | Self::Choice(_)
                | Self::List
                | Self::GitSources,
                SettingValue::Switch(_)
                | SettingValue::Count(_)
                | SettingValue::Text(_)
                | SettingValue::List(_)
                | SettingValue::Git(_),
            ) => false,
        }
    }

    /// Checks a value that was read from a typed file.
    pub fn checked(self, value: SettingValue) -> Result<SettingValue, ValueProblem> {
        if self.accepts(&value) { Ok(value) } else { Err(self.problem(&value.to_string())) }
    }

    /// Parses what a person typed or an environment variable contains; lists are separated like `PATH`.
    pub fn read(self, text: &str) -> Result<SettingValue, ValueProblem> {
        let value = match self {
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "on" | "yes" => Some(SettingValue::Switch(true)),
                "false" | "0" | "off" | "no" => Some(SettingValue::Switch(false)),
                _ => None,
            },
            Self::Count => text.parse().ok().map(SettingValue::Count),
            Self::Text | Self::AbsolutePath | Self::StoreAddress | Self::Choice(_) => {
                Some(SettingValue::Text(text.to_owned()))
            }
            Self::List => {
                let entries = text.split(':').filter(|entry| !entry.is_empty());
                Some(SettingValue::List(entries.map(str::to_owned).collect()))
            }
            // Several facts about several sources: too much to type in one line.
            Self::GitSources => None,
        };
        value.filter(|value| self.accepts(value)).ok_or_else(|| self.problem(text))
    }

    fn problem(self, found: &str) -> ValueProblem {
        // It may contain a password.
        let found = if self == Self::StoreAddress { "another text, not shown here" } else { found };
        let found = found.chars().filter(|c| !c.is_control()).take(80).collect();
        ValueProblem { wanted: self.what(), found }
    }
}

/// Whether a text can be the address of a database: it must not contain a password or key, which would be shown and
/// recorded.
fn is_store_address(text: &str) -> bool {
    let Some(rest) = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme))
    else {
        return false;
    };
    let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
    // The last `@`: a password may contain one.
    let user = address.rsplit_once('@').map_or("", |(user, _)| user);
    let names_secret = |option: &str| {
        let name = option.split('=').next().unwrap_or_default().to_lowercase();
        let is_secret = ["password", "key", "secret", "token"].iter().any(|word| name.contains(word));
        // An encoded name could be any.
        name.contains('%') || (is_secret && !name.ends_with("_file"))
    };
    !user.contains(':') && !options.split('&').any(names_secret)
}

impl SettingValue {
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Switch(on) => (*on).into(),
            Self::Count(count) => (*count).into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(entries) => entries.clone().into(),
            Self::Git(sources) => {
                let members = sources.iter().map(|(name, source)| (name.clone(), source.to_json()));
                serde_json::Value::Object(members.collect())
            }
        }
    }

    fn from_json(value: &serde_json::Value) -> Option<Self> {
        use serde_json::Value as Json;
        match value {
            Json::Bool(on) => Some(Self::Switch(*on)),
            Json::Number(number) => number.as_u64()?.try_into().ok().map(Self::Count),
            Json::String(text) => Some(Self::Text(text.clone())),
            Json::Array(entries) => {
                let texts = entries.iter().map(|entry| entry.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<String>>>().map(Self::List)
            }
            Json::Object(members) => {
                let sources = members.iter().map(|(name, source)| {
                    let source: GitSource = serde_json::from_value(source.clone()).ok()?;
                    Some((name.clone(), source))
                });
                sources.collect::<Option<GitSources>>().map(Self::Git)
            }
            Json::Null => None,
        }
    }
}

impl<'de> Deserialize<'de> for SettingValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = serde_json::Value::deserialize(deserializer)?;
        Self::from_json(&found).ok_or_else(|| serde::de::Error::custom("must be the value of a setting"))
    }
}

impl std::fmt::Display for SettingValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(on) => write!(f, "{on}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Text(text) => f.write_str(text),
            Self::List(entries) => f.write_str(&entries.join(":")),
            Self::Git(sources) => {
                let shown: Vec<String> =
                    sources.iter().map(|(name, source)| format!("{name}={}", source.url)).collect();
                f.write_str(&shown.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_address_with_a_password_is_refused_and_not_repeated() {
        let kind = ValueKind::StoreAddress;
        for good in [
            "postgres://agent@db.example:5432/team?tenant=acme",
            "postgres://agent@db.example/team?password_file=/run/password&key_file=/run/key",
        ] {
            assert_eq!(kind.read(good), Ok(SettingValue::Text(good.to_owned())));
        }
        for bad in [
            "postgres://agent:hunter2@db.example/team",
            "postgres://agent:hun@ter2@db.example/team",
            "postgres://agent@db.example/team?password=hunter2",
            "postgres://agent@db.example/team?p%61ssword=hunter2",
            "postgres://agent@db.example/team?tenant=acme&key=hunter2",
            "postgres://agent@db.example/team?STORE_KEY=hunter2",
            "/var/lib/hunter2",
        ] {
            let refused = kind.read(bad).map_err(|problem| problem.to_string());
            assert_eq!(
                refused,
                Err("must be an address like postgres://USER@HOST/DATABASE without a password, not `another text, not \
                     shown here`"
                    .to_owned()),
            );
        }
    }

    #[test]
    fn typed_text_is_parsed_as_its_kind_or_refused_with_what_is_accepted() {
        assert_eq!(ValueKind::Switch.read("On"), Ok(SettingValue::Switch(true)));
        assert_eq!(ValueKind::Count.read("30"), Ok(SettingValue::Count(30)));
        assert_eq!(ValueKind::List.read("a::b"), Ok(SettingValue::List(vec!["a".into(), "b".into()])));
        assert!(ValueKind::AbsolutePath.read("relative").is_err());
        assert!(ValueKind::Count.read("-1").is_err());
        let refused = ValueKind::Choice(&["v2", "v1"]).read("v3").map_err(|problem| problem.to_string());
        assert_eq!(refused, Err("must be one of v2, v1, not `v3`".to_owned()));
    }
}
