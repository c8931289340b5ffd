//! `workrail session prefs`: the autonomy of runs, by default or for one session (G64).

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use workrail_engine::RunPreferences;
use workrail_host::config;
use workrail_model::config::{Key, SettingValue};
use workrail_model::preferences::{Autonomy, Mode, PreferenceChange, Preferences, RiskPolicy};

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::presence::OriginRecord;
use crate::{name, presence, settings, wiring};

#[derive(Debug, Subcommand)]
pub(crate) enum PrefsCommand {
    /// Show the preferences of new runs, or of a session.
    #[command(after_help = format!(
        "{EXIT_CODES}\n\nExamples:\n  workrail session prefs show\n  workrail session prefs show --session amber-falcon"
    ))]
    Show {
        /// A session or a run: an id, a prefix of one, or a run's label.
        #[arg(long, alias = "run", value_name = "SESSION|RUN")]
        session: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Set preferences for new runs, or for a session from its next completed step on.
    #[command(after_help = format!(
        "Presets: guided, full_auto_stop_on_user_deps, full_auto_never_stop.\nSingle values: \
         autonomy=PRESET, risk_policy=conservative|balanced|aggressive.\n\nRaising autonomy needs a terminal: you are \
         asked to type the run's label (for new runs: the mode's name).\n\n{EXIT_CODES}\n\nExamples:\n  \
         workrail session prefs set full_auto_never_stop --session amber-falcon\n  \
         workrail session prefs set risk_policy=aggressive --session sess_9f3k\n  workrail session prefs set guided"
    ))]
    Set {
        /// A preset, or KEY=VALUE.
        #[arg(required = true, value_name = "PRESET|KEY=VALUE")]
        choices: Vec<String>,
        /// A session or run. Default: change the settings file, for new runs.
        #[arg(long, alias = "run", value_name = "SESSION|RUN")]
        session: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: PrefsCommand) -> ExitCode {
    match command {
        PrefsCommand::Show { session, json } => {
            let format = Format::json_if(json);
            outcome::finish(show(session.as_deref(), format), format)
        }
        PrefsCommand::Set { choices, session, json } => {
            let format = Format::json_if(json);
            outcome::finish(set(&choices, session.as_deref(), format), format)
        }
    }
}

fn show(session: Option<&str>, format: Format) -> Result<(), Failure> {
    let Some(text) = session else {
        show_default(settings::current()?.settings.preferences(), format);
        return Ok(());
    };
    let engine = wiring::read_only_default()?;
    let found = name::session_or_run(&engine, text)?;
    show_runs(&engine.preferences_of(found)?, format);
    Ok(())
}

fn set(choices: &[String], session: Option<&str>, format: Format) -> Result<(), Failure> {
    let changes = changes(choices)?;
    let Some(text) = session else { return set_default(&changes, format) };
    let engine = wiring::open_existing_default()?;
    let found = name::session_or_run(&engine, text)?;
    let raised = engine.raised_by(found, &changes)?;
    if !raised.is_empty() {
        for run in &raised {
            if engine.raising_needs_passkey(run.session_id, run.run_id)? {
                let why = format!("run {}, its workflow or the settings ask for one", run.label);
                return Err(presence::passkey_needed("Raising a run's autonomy", &why));
            }
        }
        presence::requester(&engine, "Raising a run's autonomy", OriginRecord::CommandLine)?;
    }
    for run in &raised {
        let now = run.pending.unwrap_or(run.applied);
        let prompt = format!(
            "Run {} · {} is in mode {}. The new mode lets it do more without asking. Type the run's label to allow it:",
            run.label,
            run.workflow_id,
            now.autonomy.as_str()
        );
        presence::require_typed(&prompt, &run.label)?;
    }
    show_runs(&engine.set_preferences(found, &changes)?, format);
    Ok(())
}

fn set_default(changes: &[PreferenceChange], format: Format) -> Result<(), Failure> {
    let config_path = settings::config_path().map_err(|error| settings::unusable(&error))?;
    let before = config::load_file(&config_path).map_err(|error| settings::unusable(&error))?.preferences();
    let after = changes.iter().fold(before, |preferences, change| preferences.with(*change));
    allow_default(before.autonomy, after.autonomy)?;
    for change in changes {
        let (key, value) = match change {
            PreferenceChange::Autonomy(autonomy) => (Key::Autonomy, autonomy.as_str()),
            PreferenceChange::RiskPolicy(policy) => (Key::RiskPolicy, policy.as_str()),
        };
        let value = SettingValue::Text(value.to_owned());
        config::set(&config_path, key, &value).map_err(|error| settings::unusable(&error))?;
    }
    let now = config::load(Some(&config_path), settings::named_store())
        .map_err(|error| settings::unusable(&error))?;
    show_default(now.preferences(), format);
    Ok(())
}

/// Asks before new runs get more autonomy than now.
pub(crate) fn allow_default(before: Autonomy, after: Autonomy) -> Result<(), Failure> {
    if after <= before {
        return Ok(());
    }
    let engine = wiring::read_only_default()?;
    if engine.raising_new_runs_needs_passkey() {
        let why = format!(
            "`{}` or `{}` asks for one",
            Key::ApprovalsRequire.as_str(),
            Key::ApprovalsRequireIn.as_str()
        );
        return Err(presence::passkey_needed("Raising the autonomy of new runs", &why));
    }
    presence::requester(&engine, "Raising the autonomy of new runs", OriginRecord::Nothing)?;
    let prompt = format!(
        "New runs are {} now; this lets them do more without asking. Type {} to allow it:",
        before.as_str(),
        after.as_str()
    );
    presence::require_typed(&prompt, after.as_str())
}

/// Later choices win; a preset sets both keys.
fn changes(choices: &[String]) -> Result<Vec<PreferenceChange>, Failure> {
    let mut changes = Vec::new();
    for choice in choices {
        match choice.split_once('=') {
            None => {
                let preset = Mode::parse(choice).ok_or_else(|| unknown(choice))?.preferences();
                changes.push(PreferenceChange::Autonomy(preset.autonomy));
                changes.push(PreferenceChange::RiskPolicy(preset.risk_policy));
            }
            Some(("autonomy", value)) => {
                let value = Autonomy::parse(value).ok_or_else(|| unknown(choice))?;
                changes.push(PreferenceChange::Autonomy(value));
            }
            Some(("risk_policy" | "riskPolicy", value)) => {
                let value = RiskPolicy::parse(value).ok_or_else(|| unknown(choice))?;
                changes.push(PreferenceChange::RiskPolicy(value));
            }
            Some(_) => return Err(unknown(choice)),
        }
    }
    Ok(changes)
}

fn unknown(choice: &str) -> Failure {
    Failure::Usage(format!(
        "Unknown preference `{choice}`. Give a preset ({}), autonomy=PRESET or risk_policy={}.",
        Mode::ALL.map(Mode::as_str).join(", "),
        RiskPolicy::ALL.map(RiskPolicy::as_str).join("|"),
    ))
}

fn described(preferences: Preferences) -> String {
    format!("{}, {}", preferences.autonomy.as_str(), preferences.risk_policy.as_str())
}

fn show_default(preferences: Preferences, format: Format) {
    match format {
        Format::Json => output::json(&json!({ "default": preferences })),
        Format::Text => output::line(&format!("New runs: {}", described(preferences))),
    }
}

fn show_runs(runs: &[RunPreferences], format: Format) {
    if format == Format::Json {
        output::json(&json!({ "runs": runs }));
        return;
    }
    for run in runs {
        output::line(&format!("{} · {}: {}", run.label, run.workflow_id, described(run.applied)));
        if let Some(pending) = run.pending {
            let text = format!("  pending: {}; applied by the next completed step", described(pending));
            output::toned(Tone::Warning, &text);
        }
        if let Some(problem) = run.pending_problem {
            output::toned(Tone::Warning, &format!("  {problem}"));
        }
    }
}
