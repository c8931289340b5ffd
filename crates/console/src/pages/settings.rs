//! The settings: values, sources, clean-up, keys, clients and health. Forms use the same code as the command line.

use maud::{Markup, html};
use strum::VariantArray as _;
use workrail_engine::upkeep::CleanupReport;
use workrail_model::approval::RequiredProof;
use workrail_model::config::{
    Applies, Key, SettingDifference, SettingValue, Settings, ValueKind, ValueOrigin, differences,
};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::server::ServerRecord;
use workrail_model::team::Act;
use workrail_model::text::clean;

use super::layout::token;
use super::{Page, PagePart, counted, table, ticked, time};
use super::{checks, passkeys};
use crate::administration::{
    Administration, ClientInfo, ClientState, DoctorFindingView, DoctorLevel, SourceInfo,
};
use crate::changes::PLANNED;
use crate::state::Console;
use crate::target::SettingsPage;
use crate::use_cases::{EngineResult, refusal};

pub(super) fn page(console: &Console, which: SettingsPage) -> EngineResult<Page> {
    // The first of the pages that a team has.
    let is_first = which == SettingsPage::Values && console.is_of_team();
    let which = if is_first { SettingsPage::Passkeys } else { which };
    if !offered(console).any(|page| page == which) {
        return Err(not_offered(console));
    }
    let body = match which {
        SettingsPage::Values => values(console)?,
        SettingsPage::Sources => {
            shown_or_reason(console.administration()?.sources(), |found| sources(console, &found))
        }
        SettingsPage::CleanUp => clean_up(console)?,
        SettingsPage::Keys => keys(console)?,
        SettingsPage::Passkeys => passkeys::body(console)?,
        SettingsPage::Checks => {
            let found = console.administration()?.checks();
            shown_or_reason(found, |found| checks::body(console, &found))
        }
        SettingsPage::Clients => {
            shown_or_reason(console.administration()?.clients(), |found| clients(&found))
        }
        SettingsPage::Health => health(console, &console.administration()?.health()),
    };
    let parts = vec![PagePart::new("sections", sections(console, which)), PagePart::new("settings", body)];
    Ok(Page { title: "Settings".to_owned(), parts })
}

/// The pages for this visitor: pages about the machine are hidden from a team's visitors, and pages about the store
/// are for its admins.
fn offered(console: &Console) -> impl Iterator<Item = SettingsPage> {
    let (of_team, is_admin) = (console.is_of_team(), console.may(Act::Administer));
    SettingsPage::VARIANTS.iter().copied().filter(move |page| match page {
        SettingsPage::Passkeys => true,
        SettingsPage::CleanUp | SettingsPage::Keys => is_admin,
        SettingsPage::Values
        | SettingsPage::Checks
        | SettingsPage::Sources
        | SettingsPage::Clients
        | SettingsPage::Health => !of_team,
    })
}

/// Why a page is not available.
fn not_offered(console: &Console) -> Box<ErrorEnvelope> {
    let reason = console.administration().map(drop).err();
    let admins = "This page is for admins.";
    reason.unwrap_or_else(|| {
        refusal(ErrorCode::StoreAccessDenied, admins, "Ask someone with the role `admin`.")
    })
}

fn sections(console: &Console, which: SettingsPage) -> Markup {
    html! {
        nav.sections aria-label="Settings" {
            @for page in offered(console) {
                a href=(page.address()) aria-current=[(page == which).then_some("page")] { (page.into_str()) }
            }
        }
    }
}

fn shown_or_reason<T>(found: Result<T, String>, shown: impl FnOnce(T) -> Markup) -> Markup {
    match found {
        Ok(found) => shown(found),
        Err(reason) => html! { div.banner { strong { "This cannot be read." } " " (ticked(&reason)) } },
    }
}

fn values(console: &Console) -> EngineResult<Markup> {
    let servers = console.use_cases.servers()?;
    let current = console.environment.settings();
    let in_file = console.administration()?.settings_in_file();
    Ok(shown_or_reason(current, |settings| {
        html! {
            (restarts(&in_file.unwrap_or_else(|_| settings.clone()), &servers))
            div.scroll {
                table.stacked {
                    thead { tr { th { "Setting" } th { "Value" } th { "Set by" } th { "Takes effect" } } }
                    tbody { @for key in Key::ALL { (setting(console, *key, &settings)) } }
                }
            }
        }
    }))
}

fn setting(console: &Console, key: Key, settings: &Settings) -> Markup {
    let current = settings.get(key);
    let shown = match current.map(|setting| &setting.value) {
        None => key.when_unset().to_owned(),
        Some(SettingValue::List(entries)) if entries.is_empty() => "none".to_owned(),
        Some(SettingValue::List(entries)) => entries.join(", "),
        Some(
            value @ (SettingValue::Switch(_)
            | SettingValue::Count(_)
            | SettingValue::Text(_)
            | SettingValue::Git(_)),
        ) => value.to_string(),
    };
    html! {
        tr data-item {
            td { code { (key.as_str()) } div.meta { (ticked(key.what())) } }
            td {
                (clean(&shown))
                @if let Some(field) = field(key, current.map(|setting| &setting.value)) {
                    details data-key={ "set-" (key.as_str()) } {
                        summary { "Change" }
                        form.filters method="post" action="/settings/set" data-passkey=[signs(console, key, settings)] {
                            (token(console.form_token()))
                            input type="hidden" name="key" value=(key.as_str());
                            label { span.hidden { "New value of " (key.as_str()) } (field) }
                            button type="submit" { "Save" }
                            button type="submit" name="reset" value="yes" { "Reset" }
                        }
                    }
                }
            }
            td { span.narrow { "Set by: " } (current.map_or("default", |setting| origin(setting.origin))) }
            td { span.narrow { "Takes effect: " } (applies(key.applies())) }
        }
    }
}

/// Marks the form of a setting that only a passkey may weaken.
fn signs(console: &Console, key: Key, settings: &Settings) -> Option<&'static str> {
    let asks_anywhere = settings.required_proof() == RequiredProof::Passkey
        || !settings.list(Key::ApprovalsRequireIn).is_empty();
    let protects = (key == Key::ApprovalsRequire && settings.required_proof() == RequiredProof::Passkey)
        || (matches!(key, Key::ApprovalsRequireIn | Key::Autonomy) && asks_anywhere);
    let has_keys = || console.use_cases.passkeys().is_ok_and(|keys| keys.is_ok_and(|keys| keys.has_any()));
    (protects && has_keys()).then_some("sign")
}

/// The field for a new value; `None` for settings with their own page.
fn field(key: Key, value: Option<&SettingValue>) -> Option<Markup> {
    let text = value.map(ToString::to_string).unwrap_or_default();
    let choice = |options: &[&str]| {
        html! {
            select name="value" {
                @for item in options { option value=(item) selected[text == *item] { (item) } }
            }
        }
    };
    match key.kind() {
        ValueKind::Switch => Some(choice(&["true", "false"])),
        ValueKind::Choice(options) => Some(choice(options)),
        ValueKind::Count => Some(html! { input type="number" min="0" name="value" value=(text); }),
        ValueKind::Text | ValueKind::AbsolutePath | ValueKind::StoreAddress => {
            Some(html! { input type="text" name="value" value=(text); })
        }
        ValueKind::List if matches!(key, Key::SourcePaths | Key::SourcePlugins) => None,
        ValueKind::List => {
            let text = match value {
                Some(SettingValue::List(entries)) => entries.join(":"),
                Some(
                    SettingValue::Switch(_)
                    | SettingValue::Count(_)
                    | SettingValue::Text(_)
                    | SettingValue::Git(_),
                )
                | None => String::new(),
            };
            Some(
                html! { input type="text" name="value" value=(text) placeholder="Separate items with colons"; },
            )
        }
        ValueKind::GitSources => None,
    }
}

fn origin(origin: ValueOrigin) -> &'static str {
    match origin {
        ValueOrigin::Default => "default",
        ValueOrigin::File => "the settings file",
        ValueOrigin::Environment => "the environment",
    }
}

fn applies(applies: Applies) -> &'static str {
    match applies {
        Applies::Live => "with the next call",
        Applies::AtRestart(_) => "when the server restarts",
    }
}

/// What running servers still use, compared with the file.
fn restarts(in_file: &Settings, servers: &[ServerRecord]) -> Markup {
    let value = |value: &Option<SettingValue>| {
        value.as_ref().map_or_else(|| "(automatic)".to_owned(), ToString::to_string)
    };
    let row = |server: &ServerRecord, difference: &SettingDifference| {
        vec![
            html! { (server.process_id) },
            html! { code { (difference.key.as_str()) } },
            html! { (clean(&value(&difference.applied))) },
            html! { (clean(&value(&difference.desired))) },
            html! {
                @match difference.restart {
                    Some(trigger) => { "restart the client: it changes " (trigger.what()) }
                    None => "applied automatically",
                }
            },
        ]
    };
    let differing: Vec<Vec<Markup>> = servers
        .iter()
        .flat_map(|server| {
            differences(in_file, &server.settings).into_iter().map(move |difference| (server, difference))
        })
        .map(|(server, difference)| row(server, &difference))
        .collect();
    html! {
        @if !differing.is_empty() {
            h2 { "Servers that use other values " span.count { (differing.len()) } }
            (table(&["Server process", "Setting", "Uses", "Wanted", "Then"], differing))
        }
    }
}

fn sources(console: &Console, found: &[SourceInfo]) -> Markup {
    let settings = console.environment.settings().ok();
    let is_overridden = [Key::SourcePaths, Key::SourcePlugins].into_iter().any(|key| {
        let setting = settings.as_ref().and_then(|settings| settings.get(key));
        setting.is_some_and(|setting| setting.origin == ValueOrigin::Environment)
    });
    html! {
        p.quiet { "Lowest precedence first. This console uses a new source at once, agents after a restart of their client." }
        @if is_overridden {
            p.warn { "An environment variable sets the folders here. An added folder is used only where the variable is not set." }
        }
        @for report in found { (source(console, report)) }
        h2 { "Add a source" }
        (add_folder(console))
        (add_git(console))
    }
}

fn source(console: &Console, info: &SourceInfo) -> Markup {
    html! {
        article.card data-item {
            header {
                h3 { (info.kind) @if info.git.is_some() { " " (clean(&info.name)) } }
                span class={ "chip " (state_class(info)) } { (info.state) }
                span.meta { (info.usable) " of " (counted(info.files as u64, "file", "files")) " usable" }
            }
            p.meta {
                code { (clean(&info.location)) }
                @if let Some(git) = &info.git {
                    " " (clean(&git.reference))
                    @if let Some(commit) = &git.commit { " at " code { (clean(commit)) } }
                }
            }
            @for problem in &info.problems {
                p.warn { (clean(&problem.what)) ": " (ticked(&problem.problem)) ". Fix: " (ticked(&problem.fix)) }
            }
            @if let Some(name) = &info.registered_as {
                div.actions {
                    @if info.git.is_some() { (source_form(console, "sync", name, "Fetch now")) }
                    (source_form(console, "remove", name, "Remove"))
                }
            }
        }
    }
}

/// A default location that does not exist is neither good nor bad.
fn state_class(source: &SourceInfo) -> &'static str {
    match (source.is_well, source.files) {
        (true, 0) => "quiet",
        (true, _) => "good",
        (false, _) => "bad",
    }
}

fn source_form(console: &Console, action: &str, name: &str, button: &str) -> Markup {
    html! {
        form.inline method="post" action={ "/settings/sources/" (action) } {
            (token(console.form_token()))
            input type="hidden" name="source" value=(name);
            button type="submit" { (button) }
        }
    }
}

fn add_folder(console: &Console) -> Markup {
    html! {
        form.filters method="post" action="/settings/sources/add" {
            (token(console.form_token()))
            label { span { "Folder on this machine" } input type="text" name="path" placeholder="/srv/workflows"; }
            label { span.hidden { "Kind of folder" }
                select name="kind" { option value="folder" { "Workflow files" } option value="plugin" { "Plugin" } }
            }
            button type="submit" { "Add folder" }
        }
    }
}

fn add_git(console: &Console) -> Markup {
    html! {
        form.filters method="post" action="/settings/sources/add" {
            (token(console.form_token()))
            input type="hidden" name="kind" value="git";
            label { span { "Git repository" } input type="text" name="url" placeholder="git@example.com:team/flows.git"; }
            label { span { "Name" } input type="text" name="name" placeholder="team"; }
            label { span { "Branch, tag or commit" } input type="text" name="ref"; }
            label { span { "Folder in it" } input type="text" name="folder"; }
            button type="submit" { "Add repository" }
        }
    }
}

fn clean_up(console: &Console) -> EngineResult<Markup> {
    let settings = match console.environment.settings() {
        Ok(settings) => settings,
        Err(reason) => return Ok(shown_or_reason::<()>(Err(reason), |()| html! {})),
    };
    let planned = console.use_cases.planned_clean_up(settings.retention_days())?;
    Ok(html! {
        p {
            "Deletes finished or closed sessions that nobody worked on for " strong { (clean(&planned.ttl)) }
            ", and then content that no session needs. Kept and unfinished sessions are not deleted."
        }
        (planned_removal(&planned))
        @if planned.stopped.is_none() && planned.safe_mode.is_none() && planned.freed.total().files > 0 {
            form.filters method="post" action="/settings/cleanup" {
                (token(console.form_token()))
                input type="hidden" name=(PLANNED) value=(planned.plan());
                label { span { "This cannot be undone. Type " code { "delete" } } input type="text" name="typed" autocomplete="off"; }
                button type="submit" { "Clean up now" }
            }
        }
    })
}

fn planned_removal(planned: &CleanupReport) -> Markup {
    let freed = &planned.freed;
    let sums = [
        ("Sessions", freed.sessions),
        ("Snapshots", freed.snapshots),
        ("Blobs", freed.blobs),
        ("Workflows", freed.workflows),
        ("Leftovers", freed.leftovers),
        ("Total", freed.total()),
    ];
    let row = |(name, sum): (&str, workrail_engine::upkeep::FileTotals)| {
        vec![html! { (name) }, html! { (sum.files) }, html! { (bytes_shown(sum.bytes)) }]
    };
    html! {
        @for warning in planned.stopped.iter().chain(&planned.safe_mode) {
            div.banner { strong { "Clean-up is stopped." } " " (ticked(&warning.message)) }
        }
        h2 { "What would be removed now " span.count { (counted(planned.removed.len() as u64, "session", "sessions")) } }
        (table(&["What", "Files", "Size"], sums.into_iter().map(row)))
        @if !planned.removed.is_empty() {
            details data-key="removed" {
                summary { "These sessions" }
                ul.plain {
                    @for session in planned.removed.iter().take(SESSIONS_MAX) {
                        li {
                            a href={ "/session/" (session.session_id) } { code { (session.session_id) } }
                            ", " (counted(session.age_days, "day", "days")) " old"
                            @if let Some(at) = &session.last_worked_on { ", last worked on " (time(at)) }
                        }
                    }
                }
            }
        }
        p.quiet { (counted(planned.retained.total(), "session is not deleted.", "sessions are not deleted.")) }
    }
}

/// How many are listed; the rest are counted.
const SESSIONS_MAX: usize = 100;

fn bytes_shown(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

fn keys(console: &Console) -> EngineResult<Markup> {
    let keys = console.use_cases.keys()?;
    let changed = console.administration().ok().and_then(Administration::keys_changed_at);
    Ok(html! {
        @match keys {
            None => p.quiet { "No keys yet. The first run creates them." },
            Some(keys) => {
                @let rows = [("current", Some(&keys.current), "signs new tokens, accepted"),
                    ("previous", keys.previous.as_ref(), "accepted")];
                p {
                    (counted(1 + u64::from(keys.previous.is_some()), "key", "keys"))
                    @if let Some(at) = &changed { ", changed " (time(at)) } "."
                }
                (table(&["Key", "Fingerprint", "Use"], rows.into_iter().filter_map(|(name, key, used)| {
                    Some(vec![html! { (name) }, html! { code { (key?.fingerprint) } }, html! { (used) }])
                })))
                p {
                    "The new key signs from then on. Tokens of the current key stay valid until the next rotation; \
                     those of the previous key stop working."
                }
                form.filters method="post" action="/settings/keys/rotate" {
                    (token(console.form_token()))
                    label { span { "This cannot be undone. Type " code { "rotate" } } input type="text" name="typed" autocomplete="off"; }
                    button type="submit" { "Rotate" }
                }
            }
        }
    })
}

fn clients(found: &[ClientInfo]) -> Markup {
    let row = |client: &ClientInfo| {
        let state = match &client.state {
            ClientState::SetUp(command) => html! { span.good { "set up" } div.meta { (clean(command)) } },
            ClientState::NotSetUp if client.is_found => {
                html! { span.warn { "client installed, not set up" } }
            }
            ClientState::NotSetUp => html! { span.quiet { "client not installed" } },
            ClientState::Unreadable(problem) => html! { span.bad { (clean(problem)) } },
        };
        vec![
            html! { (client.client) },
            html! { (client.scope) },
            state,
            html! { code { (clean(&client.file)) } },
        ]
    };
    html! {
        (table(&["Client", "Scope", "WorkRail", "File"], found.iter().map(row)))
        p { (ticked("Set one up with `workrail install --client NAME`; `--dry-run` shows the change first.")) }
    }
}

fn health(console: &Console, found: &[DoctorFindingView]) -> Markup {
    let row = |finding: &DoctorFindingView| {
        let level = match finding.level {
            DoctorLevel::Good => html! { span.good { "ok" } },
            DoctorLevel::Warning => html! { span.warn { "warning" } },
            DoctorLevel::Problem => html! { span.bad { "problem" } },
        };
        let what = html! {
            (ticked(&finding.what))
            @if let Some(fix) = &finding.fix { div.meta { "Fix: " (ticked(fix)) } }
        };
        vec![html! { (finding.area) }, level, what]
    };
    html! {
        dl.facts {
            dt { "Data directory" } dd { code { (clean(&console.environment.data_dir())) } }
            dt { "Version" } dd { (console.environment.version()) }
        }
        (table(&["Area", "State", "What"], found.iter().map(row)))
    }
}
