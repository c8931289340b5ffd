//! `workrail workflow sources`: where workflows come from, how each place is, and registering more of them.

use std::process::ExitCode;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use workrail_engine::catalog::{Catalog, SourceCount};
use workrail_host::config::{self, ConfigPath, variable};
use workrail_host::sources::{Mirror, SourceReport, Sources, SyncError, Synced, plugin_name};
use workrail_host::workspace::default_workspace;
use workrail_model::config::{GitSource, Key, SYNC_HOURS_DEFAULT, Value, is_source_name};
use workrail_model::discovery::Precedence;

use crate::config::{behind, warn};
use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Progress, Tone};
use crate::settings::{self, unusable};

#[derive(Debug, Args)]
#[command(after_help = format!(
    "{EXIT_CODES}\n\nExamples:\n  workrail workflow sources\n  \
     workrail workflow sources add git team https://example.com/team/workflows.git --ref main --folder flows\n  \
     workrail workflow sources sync team\n  workrail workflow sources health"
))]
pub(crate) struct SourcesArguments {
    #[command(subcommand)]
    command: Option<SourcesCommand>,
}

#[derive(Debug, Subcommand)]
enum SourcesCommand {
    /// List the sources, lowest precedence first. This is the default.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources list --json"))]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Register a folder, a plugin or a git repository.
    #[command(subcommand)]
    Add(AddCommand),
    /// Remove a source from the settings, and its fetched copy.
    #[command(after_help = format!("{EXIT_CODES}\n\nExamples:\n  workrail workflow sources remove team\n  workrail workflow sources remove /srv/flows"))]
    Remove {
        /// The name of a git source, or the path of a registered folder.
        source: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch git sources now.
    #[command(after_help = format!(
        "If a fetch fails, the copy fetched before stays in use.\n\n{EXIT_CODES}\n\n\
         Examples:\n  workrail workflow sources sync\n  workrail workflow sources sync team"
    ))]
    Sync {
        /// The sources to fetch. Default: all.
        names: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check every source and explain how to fix problems.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources health"))]
    Health {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum AddCommand {
    /// A folder with workflow files.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources add folder ~/flows"))]
    Folder {
        path: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A folder with a `workrail-plugin.json`.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources add plugin /opt/acme-workflows"))]
    Plugin {
        path: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A git repository, over https or ssh.
    #[command(after_help = format!(
        "The URL must not contain a user name or password. Private repositories are fetched over ssh with your key.\n\n\
         {EXIT_CODES}\n\nExamples:\n  workrail workflow sources add git team https://example.com/team/flows.git\n  \
         workrail workflow sources add git team git@example.com:team/flows.git --ref v2 --folder workflows"
    ))]
    Git(AddGit),
}

#[derive(Debug, Args)]
struct AddGit {
    /// A name for the source.
    name: String,
    url: String,
    /// A branch, tag or full commit id. Default: the repository's default branch.
    #[arg(long = "ref", value_name = "REF")]
    pin: Option<String>,
    /// The folder in the repository that holds the workflows.
    #[arg(long)]
    folder: Option<String>,
    /// How often a running server fetches it; 0 means never.
    #[arg(long, value_name = "HOURS", default_value_t = SYNC_HOURS_DEFAULT)]
    sync_hours: u32,
    /// Allow an absolute path to a repository on this machine.
    #[arg(long)]
    allow_local: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: SourcesArguments) -> ExitCode {
    let (done, json) = match arguments.command.unwrap_or(SourcesCommand::List { json: false }) {
        SourcesCommand::List { json } => (list(Format::json_if(json)), json),
        SourcesCommand::Add(AddCommand::Folder { path, json }) => {
            (add_folder(&path, Key::SourcePaths, Format::json_if(json)), json)
        }
        SourcesCommand::Add(AddCommand::Plugin { path, json }) => {
            (add_folder(&path, Key::SourcePlugins, Format::json_if(json)), json)
        }
        SourcesCommand::Add(AddCommand::Git(git)) => {
            let json = git.json;
            (add_git(git, Format::json_if(json)), json)
        }
        SourcesCommand::Remove { source, json } => (remove(&source, Format::json_if(json)), json),
        SourcesCommand::Sync { names, json } => (sync(&names, Format::json_if(json)), json),
        SourcesCommand::Health { json } => (health(Format::json_if(json)), json),
    };
    outcome::finish(done, Format::json_if(json))
}

/// Every source with how many of its files can be used.
pub(crate) fn looked_at() -> Result<Vec<(SourceReport, SourceCount)>, Failure> {
    settings::sources().map(looked_at_in)
}

pub(crate) fn looked_at_in(sources: Sources) -> Vec<(SourceReport, SourceCount)> {
    let workspace = default_workspace();
    let reports = sources.reports(workspace.as_ref());
    let counts = Catalog::new(std::sync::Arc::new(sources)).by_source(workspace.as_ref());
    let counted = reports.into_iter().map(|report| {
        let count = counts.get(&(report.precedence, report.folder)).copied().unwrap_or_default();
        (report, count)
    });
    counted.collect()
}

/// What a source is called in commands and tables.
pub(crate) fn kind(precedence: Precedence) -> &'static str {
    match precedence {
        Precedence::Bundled => "bundled",
        Precedence::Plugin => "plugin",
        Precedence::User => "user",
        Precedence::Custom => "folder",
        Precedence::Git => "git",
        Precedence::Project => "project",
    }
}

fn shown((report, count): &(SourceReport, SourceCount)) -> Json {
    let problems: Vec<Json> = report
        .problems
        .iter()
        .map(|own| json!({ "reference": own.reference, "problem": own.problem, "fix": own.fix }))
        .collect();
    json!({
        "kind": kind(report.precedence), "sourceKind": report.precedence.source_kind(), "name": report.name,
        "place": report.place, "state": report.state, "files": report.files, "usable": count.usable,
        "git": report.git, "problems": problems,
    })
}

fn row((report, count): &(SourceReport, SourceCount)) -> Vec<String> {
    let place = match &report.git {
        Some(git) => {
            let commit =
                git.commit.as_deref().map_or(String::new(), |commit| format!(" at {}", &commit[..8]));
            format!("{} {}{commit}", report.place, git.r#ref)
        }
        None => report.place.clone(),
    };
    let name = if report.git.is_some() { report.name.clone() } else { String::new() };
    let usable = format!("{} of {}", count.usable, report.files);
    vec![kind(report.precedence).to_owned(), name, place, report.state.as_str().to_owned(), usable]
}

const HEADING: [&str; 5] = ["source", "name", "where", "state", "usable"];

fn list(format: Format) -> Result<(), Failure> {
    let sources = looked_at()?;
    match format {
        Format::Json => {
            let sources: Vec<Json> = sources.iter().map(shown).collect();
            output::json(&json!({ "sources": sources }));
        }
        Format::Text => {
            output::table(&HEADING, sources.iter().map(row));
            let unwell = sources.iter().filter(|(report, _)| !report.state.is_well()).count();
            if unwell > 0 {
                output::toned(
                    Tone::Warning,
                    &format!("{unwell} need attention: workrail workflow sources health"),
                );
            }
        }
    }
    Ok(())
}

fn health(format: Format) -> Result<(), Failure> {
    let sources = looked_at()?;
    let is_well =
        |(report, _): &(SourceReport, SourceCount)| report.state.is_well() && report.problems.is_empty();
    let well = sources.iter().all(is_well);
    if format == Format::Json {
        let sources: Vec<Json> = sources.iter().map(shown).collect();
        output::json(&json!({ "healthy": well, "sources": sources }));
    } else {
        for own in &sources {
            let (report, count) = own;
            let tone = if is_well(own) { Tone::Good } else { Tone::Bad };
            let name = if report.git.is_some() { format!("{} ", report.name) } else { String::new() };
            let files = format!("{} of {} files usable", count.usable, report.files);
            let state = report.state.as_str();
            output::toned(
                tone,
                &format!("{state:<14} {} {name}{} ({files})", kind(report.precedence), report.place),
            );
            if let Some(git) = &report.git {
                let when = git.fetched_at_ms.map_or("never".to_owned(), ago);
                let commit = git.commit.as_deref().unwrap_or("no commit");
                output::line(&format!("               {} {commit}, last fetched {when}", git.r#ref));
            }
            for problem in &report.problems {
                output::line(&format!("               {}: {}", problem.reference, problem.problem));
                output::line(&format!("               fix: {}", problem.fix));
            }
        }
    }
    if well { Ok(()) } else { Err(Failure::Problems) }
}

/// How long ago a moment was, roughly.
fn ago(at_ms: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let minutes = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(at_ms) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} minutes ago"),
        60..2_880 => format!("{} hours ago", minutes / 60),
        2_880.. => format!("{} days ago", minutes / 1_440),
    }
}

fn place() -> Result<ConfigPath, Failure> {
    settings::place().map_err(|error| unusable(&error))
}

/// A folder as it is registered: absolute, whatever it was called here.
fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let full = std::path::absolute(path).ok().and_then(|full| Utf8PathBuf::from_path_buf(full).ok());
    // `..` means what the file system says, which only a folder that is there can tell.
    let upward = |full: &Utf8PathBuf| full.components().any(|part| part == Utf8Component::ParentDir);
    let full = full.map(|full| match upward(&full) {
        true => full.canonicalize_utf8().unwrap_or(full),
        false => full,
    });
    full.ok_or_else(|| Failure::Call(format!("`{path}` cannot be made an absolute path.")))
}

fn add_folder(path: &Utf8Path, key: Key, format: Format) -> Result<(), Failure> {
    let Registered { place, source, done } = register_folder(path, key)?;
    written(&place, key, &source, done, format)
}

/// What registering or removing a source did.
#[derive(Debug)]
pub(crate) struct Registered {
    place: ConfigPath,
    source: String,
    done: &'static str,
}

/// Registers a folder or a plugin in the settings file.
pub(crate) fn register_folder(path: &Utf8Path, key: Key) -> Result<Registered, Failure> {
    let full = absolute(path)?;
    if !full.is_dir() {
        return Err(Failure::Call(format!(
            "`{full}` is not a folder that can be read. Nothing was written."
        )));
    }
    if full.as_str().contains(':') {
        return Err(Failure::Call("A folder whose path contains a colon cannot be registered.".to_owned()));
    }
    if key == Key::SourcePlugins {
        plugin_name(&full).map_err(|wrong| {
            Failure::Call(format!("`{full}`: {wrong}; {}. Nothing was written.", wrong.fix))
        })?;
    }
    let place = place()?;
    let mut folders = desired(&place)?.list(key).to_vec();
    let source = full.to_string();
    if folders.contains(&source) {
        return Ok(Registered { place, source, done: "Already registered:" });
    }
    folders.push(source.clone());
    config::set(&place, key, &Value::List(folders)).map_err(|error| unusable(&error))?;
    Ok(Registered { place, source, done: "Registered" })
}

fn desired(place: &ConfigPath) -> Result<workrail_model::config::Settings, Failure> {
    // The file need not be there yet.
    let place = ConfigPath { named: false, ..place.clone() };
    config::load_file(&place).map_err(|error| unusable(&error))
}

fn add_git(git: AddGit, format: Format) -> Result<(), Failure> {
    let AddGit { name, url, pin, folder, sync_hours, allow_local, .. } = git;
    let git = NewGit { name, url, pin, folder, sync_hours, allow_local };
    let Registered { place, source, done } = register_git(git)?;
    written(&place, Key::SourceGit, &source, done, format)?;
    if format == Format::Text {
        output::line(&format!("Fetch it now: workrail workflow sources sync {source}"));
    }
    Ok(())
}

/// A git source to be registered.
#[derive(Debug)]
pub(crate) struct NewGit {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) pin: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) sync_hours: u32,
    pub(crate) allow_local: bool,
}

/// Registers a git repository in the settings file; it is not fetched yet.
pub(crate) fn register_git(git: NewGit) -> Result<Registered, Failure> {
    if !is_source_name(&git.name) {
        let rule = "lower-case letters, digits, `-` and `_`, a letter first";
        return Err(Failure::Call(format!(
            "`{}` cannot name a source: {rule}. Nothing was written.",
            git.name
        )));
    }
    let place = place()?;
    if desired(&place)?.git_sources().contains_key(&git.name) {
        let name = &git.name;
        let text = format!(
            "Source `{name}` already exists. Remove it first: workrail workflow sources remove {name}"
        );
        return Err(Failure::Call(text));
    }
    let source = GitSource {
        r#ref: git.pin,
        folder: git.folder,
        sync_hours: git.sync_hours,
        allow_local: git.allow_local,
        ..GitSource::new(&git.url)
    };
    if let Err(refused) = source.checked() {
        return Err(Failure::Call(format!(
            "`{}`: {refused}; {}. Nothing was written.",
            source.url,
            refused.fix()
        )));
    }
    config::add_git(&place, &git.name, &source).map_err(|error| unusable(&error))?;
    Ok(Registered { place, source: git.name, done: "Registered" })
}

/// What was done, what hides it here, and which servers do not know it yet.
fn written(place: &ConfigPath, key: Key, source: &str, what: &str, format: Format) -> Result<(), Failure> {
    let behind = behind(&desired(place)?)?;
    let stale = || behind.iter().filter(|own| own.differences.iter().any(|one| one.key == key));
    if format == Format::Json {
        let servers: Vec<String> = stale().map(|own| own.server.server_id.to_string()).collect();
        output::json(&json!({
            "source": source, "key": key.as_str(), "path": place.path, "done": what, "serversToRestart": servers,
        }));
        return Ok(());
    }
    output::toned(Tone::Good, &format!("{what} {source} ({})", place.path));
    if let Some((name, overriding)) = variable(key).and_then(|own| Some((own.name, own.get()?))) {
        output::toned(
            Tone::Warning,
            &format!("The environment variable `{name}` is set to `{overriding}` and overrides the file."),
        );
    }
    for behind in stale() {
        warn(behind);
    }
    Ok(())
}

fn remove(source: &str, format: Format) -> Result<(), Failure> {
    let (Registered { place, source, done }, key) = forget(source)?;
    written(&place, key, &source, done, format)
}

/// Removes a source from the settings file, and its fetched copy; also under which setting it was.
pub(crate) fn forget(source: &str) -> Result<(Registered, Key), Failure> {
    let place = place()?;
    let desired = desired(&place)?;
    if desired.git_sources().contains_key(source) {
        let mirrors = Sources::from_settings(&settings::fresh()?.settings);
        let mirror = mirrors.mirrors().iter().find(|mirror| mirror.name == source);
        config::remove_git(&place, source).map_err(|error| unusable(&error))?;
        if let Some(Err(error)) = mirror.map(Mirror::forget) {
            output::notice(&format!("The fetched copy could not be deleted: {error}"));
        }
        let removed = Registered { place, source: source.to_owned(), done: "Removed source" };
        return Ok((removed, Key::SourceGit));
    }
    let full = absolute(Utf8Path::new(source))?;
    for key in [Key::SourcePaths, Key::SourcePlugins] {
        let folders = desired.list(key);
        let kept: Vec<String> = folders
            .iter()
            .filter(|folder| *folder != source && folder.as_str() != full.as_str())
            .cloned()
            .collect();
        if kept.len() == folders.len() {
            continue;
        }
        let done = match kept.is_empty() {
            true => config::unset(&place, key),
            false => config::set(&place, key, &Value::List(kept)),
        };
        done.map_err(|error| unusable(&error))?;
        return Ok((Registered { place, source: source.to_owned(), done: "Removed source" }, key));
    }
    let known: Vec<String> = desired.git_sources().into_keys().collect();
    let folders =
        [Key::SourcePaths, Key::SourcePlugins].into_iter().flat_map(|key| desired.list(key).to_vec());
    let known: Vec<String> = known.into_iter().chain(folders).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(Failure::Call(format!("`{source}` is not registered in {}. Registered: {known}.", place.path)))
}

fn sync(names: &[String], format: Format) -> Result<(), Failure> {
    let sources = settings::sources()?;
    let mirrors = wanted(&sources, names)?;
    let progress = Progress::new("fetching", mirrors.len() as u64);
    let mut results = Vec::new();
    for (position, mirror) in mirrors.iter().enumerate() {
        progress.at(position as u64);
        results.push((*mirror, mirror.sync()));
    }
    drop(progress);
    match format {
        Format::Json => {
            let sources: Vec<Json> = results.iter().map(|(mirror, done)| result(mirror, done)).collect();
            output::json(&json!({ "sources": sources }));
        }
        Format::Text => {
            for (mirror, done) in &results {
                tell(mirror, done);
            }
            if results.is_empty() {
                output::line(
                    "No git source is registered. Add one: workrail workflow sources add git NAME URL",
                );
            }
        }
    }
    if results.iter().all(|(_, done)| done.is_ok()) { Ok(()) } else { Err(Failure::Problems) }
}

fn wanted<'s>(sources: &'s Sources, names: &[String]) -> Result<Vec<&'s Mirror>, Failure> {
    let mirrors = sources.mirrors();
    for name in names {
        if !mirrors.iter().any(|mirror| mirror.name == *name) {
            let known: Vec<&str> = mirrors.iter().map(|mirror| mirror.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Failure::Call(format!("Unknown git source `{name}`. Git sources: {known}.")));
        }
    }
    Ok(mirrors.iter().filter(|mirror| names.is_empty() || names.contains(&mirror.name)).collect())
}

fn result(mirror: &Mirror, done: &Result<Synced, SyncError>) -> Json {
    let (outcome, commit, files, problem) = match done {
        Ok(Synced::Unchanged { commit, files }) => ("unchanged", Some(commit), Some(files), None),
        Ok(Synced::Updated { commit, files }) => ("updated", Some(commit), Some(files), None),
        Err(SyncError::Refused(refused)) => {
            ("refused", None, None, Some(format!("{refused}; {}", refused.fix())))
        }
        Err(error @ SyncError::Busy) => ("busy", None, None, Some(error.to_string())),
        Err(error @ SyncError::Failed(_)) => ("failed", None, None, Some(error.to_string())),
    };
    json!({ "name": mirror.name, "outcome": outcome, "commit": commit, "files": files, "problem": problem })
}

fn tell(mirror: &Mirror, done: &Result<Synced, SyncError>) {
    let name = &mirror.name;
    match done {
        Ok(Synced::Unchanged { commit, files }) => {
            output::toned(Tone::Good, &format!("{name}: already at {commit}, {files} workflow files"));
        }
        Ok(Synced::Updated { commit, files }) => {
            output::toned(Tone::Good, &format!("{name}: now at {commit}, {files} workflow files"));
        }
        Err(SyncError::Refused(refused)) => {
            output::toned(Tone::Bad, &format!("{name}: {refused}"));
            output::line(&format!("  fix: {}", refused.fix()));
        }
        Err(error @ (SyncError::Busy | SyncError::Failed(_))) => {
            output::toned(Tone::Bad, &format!("{name}: {error}"));
            if let Some(commit) = mirror.state().commit {
                output::line(&format!("  {commit} stays in use"));
            }
        }
    }
}
