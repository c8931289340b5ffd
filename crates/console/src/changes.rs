//! Changes that forms make to settings, workflows and preferences, through the same code as the command line (G95).

use workrail_engine::SessionOrRun;
use workrail_engine::upkeep::CleanupPlan;
use workrail_model::config::Key;
use workrail_model::digest::Sha256;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::id::SessionId;
use workrail_model::name::WorkflowId;
use workrail_model::preferences::{Mode as PreferenceMode, PreferenceChange};

use crate::administration::NewSource;
use crate::passkeys;
use crate::state::Console;
use crate::target::{FormOutcome, PageAddress, QueryPairs, SettingsPage, WorkflowPage};
use crate::use_cases::{EngineResult, refusal};

/// What a form asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdministrationForm {
    Set,
    AddSource,
    RemoveSource,
    SyncSource,
    CleanUp,
    RotateKeys,
    Enrol,
    RemovePasskey,
    TrustChecks,
    RevokeCheck,
    Copy(WorkflowId),
    Prefer(SessionId),
}

/// What was done, and the page that shows it.
#[derive(Clone, Debug)]
pub(crate) struct FormResult {
    pub(crate) done: FormOutcome,
    pub(crate) address: String,
}

impl AdministrationForm {
    pub(crate) fn parse(parts: &[&str]) -> Option<Self> {
        Some(match parts {
            ["settings", "set"] => Self::Set,
            ["settings", "sources", "add"] => Self::AddSource,
            ["settings", "sources", "remove"] => Self::RemoveSource,
            ["settings", "sources", "sync"] => Self::SyncSource,
            ["settings", "cleanup"] => Self::CleanUp,
            ["settings", "keys", "rotate"] => Self::RotateKeys,
            ["settings", "passkeys", "enrol"] => Self::Enrol,
            ["settings", "passkeys", "remove"] => Self::RemovePasskey,
            ["settings", "checks", "trust"] => Self::TrustChecks,
            ["settings", "checks", "revoke"] => Self::RevokeCheck,
            ["workflows", id, "copy"] => Self::Copy(WorkflowId::parse(id).ok()?),
            ["session", id, "prefer"] => Self::Prefer(SessionId::parse(id).ok()?),
            _ => return None,
        })
    }

    /// The page that the form is on.
    pub(crate) fn page(&self) -> String {
        match self {
            Self::Set => SettingsPage::Values.address().to_owned(),
            Self::AddSource | Self::RemoveSource | Self::SyncSource => {
                SettingsPage::Sources.address().to_owned()
            }
            Self::CleanUp => SettingsPage::CleanUp.address().to_owned(),
            Self::RotateKeys => SettingsPage::Keys.address().to_owned(),
            Self::Enrol | Self::RemovePasskey => SettingsPage::Passkeys.address().to_owned(),
            Self::TrustChecks | Self::RevokeCheck => SettingsPage::Checks.address().to_owned(),
            Self::Copy(id) => PageAddress::Workflow(WorkflowPage { id: id.clone(), pinned: None }).address(),
            Self::Prefer(session) => PageAddress::Session(*session).address(),
        }
    }
}

/// The field of the clean-up form that records what the page showed.
pub(crate) const PLANNED: &str = "planned";

/// The field of the form that trusts checks, which records the checks that the page showed.
pub(crate) const SHOWN_CHECKS: &str = "checks";

/// Carries out a form whose token was checked.
pub(crate) fn carry_out(
    console: &Console,
    change: &AdministrationForm,
    form: &QueryPairs,
) -> EngineResult<FormResult> {
    let text = |name: &str| form.get(name).unwrap_or_default().trim();
    let administration = || console.administration();
    let done = match change {
        AdministrationForm::Set => {
            save_setting(console, form)?;
            FormOutcome::SettingsSaved
        }
        AdministrationForm::AddSource => {
            or_refused(administration()?.add_source(&new_source(form)?))?;
            FormOutcome::SourceAdded
        }
        AdministrationForm::RemoveSource => {
            or_refused(administration()?.remove_source(text("source")))?;
            FormOutcome::SourceRemoved
        }
        AdministrationForm::SyncSource => {
            or_refused(administration()?.sync_source(text("source")))?;
            FormOutcome::Fetched
        }
        AdministrationForm::CleanUp => {
            clean_up(console, form)?;
            FormOutcome::CleanedUp
        }
        AdministrationForm::RotateKeys => {
            check_confirmation(text("typed"), "rotate")?;
            console.use_cases.rotate_keys()?;
            FormOutcome::Rotated
        }
        AdministrationForm::Enrol => {
            passkeys::enrol(console, form)?;
            FormOutcome::Enrolled
        }
        AdministrationForm::RemovePasskey => {
            passkeys::remove(console, form)?;
            FormOutcome::KeyRemoved
        }
        AdministrationForm::TrustChecks => {
            trust_checks(console, form)?;
            FormOutcome::Trusted
        }
        AdministrationForm::RevokeCheck => {
            or_refused(administration()?.revoke_check(text("check")))?;
            FormOutcome::CheckUntrusted
        }
        AdministrationForm::Copy(id) => {
            let copy = user_workflow_id(text("id"))?;
            let bytes = console.use_cases.copy(id, &copy)?;
            or_refused(administration()?.write_workflow(&copy, &bytes))?;
            // The copy is made to be edited.
            let editor = console.use_cases.file_of_workflow(&copy).map(|file| PageAddress::Edit(file.key));
            let address = editor.map_or_else(|_| change.page(), |editor| editor.address());
            return Ok(FormResult { done: FormOutcome::Copied, address });
        }
        AdministrationForm::Prefer(session) => {
            prefer(console, *session, form)?;
            FormOutcome::PreferencesSaved
        }
    };
    Ok(FormResult { done, address: change.page() })
}

fn save_setting(console: &Console, form: &QueryPairs) -> EngineResult<()> {
    let (key, value) = chosen_setting(form)?;
    let administration = console.administration()?;
    if !or_refused(administration.needs_passkey(key, value))? {
        return or_refused(administration.change(key, value));
    }
    let signed = passkeys::signed(console, form)?
        .ok_or_else(|| refused("This weakens a safeguard, so it needs a passkey. Nothing was changed."))?;
    console.use_cases.agree_to_setting(key, value, &signed)?;
    or_refused(administration.change_confirmed_by_passkey(key, value))
}

/// Removes what the page showed, after the confirmation was typed.
fn clean_up(console: &Console, form: &QueryPairs) -> EngineResult<()> {
    let text = |name: &str| form.get(name).unwrap_or_default().trim();
    check_confirmation(text("typed"), "delete")?;
    let days = or_refused(console.environment.settings())?.retention_days();
    let agreed = CleanupPlan::parse(text(PLANNED))
        .ok_or_else(|| refused("The form does not say what the page showed. Nothing was removed."))?;
    let cleaned = console.use_cases.clean_up_as_planned(days, agreed)?;
    let Some(mut stopped) = cleaned.stopped.or(cleaned.safe_mode) else { return Ok(()) };
    if !cleaned.removed.is_empty() {
        let removed = cleaned.removed.len();
        stopped.message =
            format!("Old sessions were removed ({removed}), then this failed: {}", stopped.message);
    }
    Err(Box::new(stopped))
}

/// Trusting lets commands run without asking again, so a passkey must sign exactly what was shown (G121).
fn trust_checks(console: &Console, form: &QueryPairs) -> EngineResult<()> {
    let administration = console.administration()?;
    let seen = shown_checks(form)?;
    let signed = passkeys::signed(console, form)?.ok_or_else(|| {
        refused(
            "Trusting checks needs a passkey here, or a terminal: `workrail trust` in the workspace. Nothing was trusted.",
        )
    })?;
    let origin = console.environment.decision_origin();
    or_refused(
        origin.map_err(|reason| format!("You cannot trust checks here: {reason} Nothing was trusted.")),
    )?;
    console.use_cases.agree_to_trust(seen, &signed)?;
    or_refused(administration.trust_checks(seen))
}

/// The commands that the page showed.
pub(crate) fn shown_checks(form: &QueryPairs) -> EngineResult<Sha256> {
    Sha256::parse(form.get(SHOWN_CHECKS).unwrap_or_default())
        .map_err(|_| refused("The form does not say what the page showed. Nothing was trusted."))
}

fn new_source(form: &QueryPairs) -> EngineResult<NewSource> {
    let text = |name: &str| form.get(name).unwrap_or_default().trim().to_owned();
    let given = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
    match text("kind").as_str() {
        "folder" => Ok(NewSource::Folder { path: text("path") }),
        "plugin" => Ok(NewSource::Plugin { path: text("path") }),
        "git" => Ok(NewSource::Git {
            name: text("name"),
            url: text("url"),
            reference: given("ref"),
            folder: given("folder"),
        }),
        _ => Err(refused("Unknown kind of source. Nothing was changed.")),
    }
}

/// An id that the user may choose: our own namespace is reserved.
fn user_workflow_id(text: &str) -> EngineResult<WorkflowId> {
    let id = WorkflowId::parse(text).map_err(|error| refused(&format!("{error}. Nothing was written.")))?;
    if id.namespace().is_none() || id.is_reserved() {
        return Err(refused(
            "The new id needs a namespace of your own, such as `team.review`. Nothing was written.",
        ));
    }
    Ok(id)
}

/// The setting that a form changes; without a value it is reset.
pub(crate) fn chosen_setting(form: &QueryPairs) -> EngineResult<(Key, Option<&str>)> {
    let text = |name: &str| form.get(name).unwrap_or_default().trim();
    let key = Key::parse(text("key")).ok_or_else(|| refused("Unknown setting. Nothing was changed."))?;
    Ok((key, form.get("reset").is_none().then(|| text("value"))))
}

/// The mode that a form asks for.
pub(crate) fn chosen_mode(form: &QueryPairs) -> EngineResult<[PreferenceChange; 2]> {
    let mode = form.get("mode").unwrap_or_default().trim();
    let chosen = PreferenceMode::parse(mode).ok_or_else(|| refused("Unknown mode. Nothing was changed."))?;
    let preferences = chosen.preferences();
    Ok([
        PreferenceChange::Autonomy(preferences.autonomy),
        PreferenceChange::RiskPolicy(preferences.risk_policy),
    ])
}

/// Giving a run more autonomy needs a passkey, or a user at a terminal, just as approving does (G63).
fn prefer(console: &Console, session: SessionId, form: &QueryPairs) -> EngineResult<()> {
    let changes = chosen_mode(form)?;
    if let Some(signed) = passkeys::signed(console, form)? {
        return console.use_cases.prefer_signed(session, &changes, &signed);
    }
    let raised = console.use_cases.prefer(SessionOrRun { session, run: None }, &changes)?;
    match raised.first() {
        None => Ok(()),
        Some(run) => Err(refused(&format!(
            "This raises the autonomy of run {}, so it needs a passkey here, or a terminal: `workrail session prefs \
             set {} --session {}`. Nothing was changed.",
            run.label,
            form.get("mode").unwrap_or_default().trim(),
            run.label
        ))),
    }
}

fn check_confirmation(text: &str, wanted: &str) -> EngineResult<()> {
    match text == wanted {
        true => Ok(()),
        false => Err(refused(&format!("Type `{wanted}` to confirm. Nothing was changed."))),
    }
}

fn or_refused<T>(done: Result<T, String>) -> EngineResult<T> {
    done.map_err(|reason| refused(&reason))
}

fn refused(message: &str) -> Box<ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, message, "Go back to correct it, or to load the page again.")
}
