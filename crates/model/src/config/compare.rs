//! Desired versus applied settings: what a running server does not know yet, and whether it needs a restart.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Applies, Key, RestartTrigger, SettingValue, Settings, ValueOrigin};

/// A setting that a running server has otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingDifference {
    pub key: Key,
    pub desired: Option<SettingValue>,
    pub applied: Option<SettingValue>,
    /// Why the server must be started again; absent when it sees the change by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartTrigger>,
}

/// The differences between the settings wanted now and those a server started with.
///
/// A setting fixed by the server's environment is not a difference, whatever the file says: restarting in the same
/// environment would not change it.
pub fn differences(desired: &Settings, applied: &Settings) -> Vec<SettingDifference> {
    let differing = Key::ALL.iter().filter_map(|key| {
        let (wanted, has) = (desired.get(*key), applied.get(*key));
        let fixed = has.is_some_and(|setting| setting.origin == ValueOrigin::Environment)
            || wanted.is_some_and(|setting| setting.origin == ValueOrigin::Environment);
        if fixed || wanted.map(|setting| &setting.value) == has.map(|setting| &setting.value) {
            return None;
        }
        let restart = match key.applies() {
            Applies::Live => None,
            Applies::AtRestart(trigger) => Some(trigger),
        };
        Some(SettingDifference {
            key: *key,
            desired: wanted.map(|setting| setting.value.clone()),
            applied: has.map(|setting| setting.value.clone()),
            restart,
        })
    });
    differing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: Key, value: SettingValue, origin: ValueOrigin) -> Settings {
        Settings::layered([(key, value, origin)])
    }

    #[test]
    fn only_tools_sources_and_process_settings_need_a_restart() {
        let applied = Settings::default();
        let tool = with(Key::ToolsStartSession, SettingValue::Switch(true), ValueOrigin::File);
        let found = differences(&tool, &applied);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].restart, Some(RestartTrigger::ToolSet));
        let kept = with(Key::RetentionTtl, SettingValue::Count(5), ValueOrigin::File);
        assert_eq!(differences(&kept, &applied)[0].restart, None);
        assert_eq!(differences(&applied, &applied), []);
    }

    #[test]
    fn a_setting_fixed_by_the_environment_needs_no_restart() {
        let desired = with(Key::ToolsResume, SettingValue::Switch(true), ValueOrigin::File);
        let applied = with(Key::ToolsResume, SettingValue::Switch(false), ValueOrigin::Environment);
        assert_eq!(differences(&desired, &applied), []);
    }
}
