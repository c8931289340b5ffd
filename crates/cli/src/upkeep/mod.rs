//! Commands about the whole store: `verify`, `backup`, `restore`, `copy`, `gc`, `repair`, `keys` (G24-G27, G33).

mod backup;
mod copy;
mod gc;
mod keys;
mod passkeys;
mod repair;
mod verify;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use workrail_model::retention::Ttl;

use crate::outcome::{self, EXIT_CODES, Format};
use crate::output::{self, ProgressDisplay, Tone};

pub(crate) use keys::unusable_http_secret;

#[derive(Debug, Subcommand)]
pub(crate) enum UpkeepCommand {
    /// Check every digest and rule of a session or of the whole store. Changes nothing.
    #[command(after_help = format!(
        "Examples:\n  workrail store verify\n  workrail store verify amber-falcon\n  workrail store verify --all --json\n\n{EXIT_CODES}"
    ))]
    Verify(VerifyArguments),
    /// Back up the data directory. Incremental, and safe while agents work.
    #[command(after_help = format!(
        "The backup is itself a data directory: `WORKRAIL_DATA_DIR=DEST workrail store verify` checks it, and every \
         reading command works on it. Sessions deleted from the store stay in the backup.\n\nExamples:\n  \
         workrail store backup /mnt/disk/workrail\n  workrail store backup /mnt/disk/workrail --verify\n  workrail store backup \
         ~/workrail-backup --without-keys --json\n\n{EXIT_CODES}"
    ))]
    Backup(BackupArguments),
    /// Restore missing or damaged sessions from a backup. Never overwrites healthy ones.
    #[command(after_help = format!(
        "Missing sessions are added, damaged ones are replaced (the damaged folder is kept in backups/), and damaged \
         content is restored. Sessions whose history differs from the backup are reported and not changed.\n\nExamples:\n  \
         workrail store restore /mnt/disk/workrail --dry-run\n  workrail store restore /mnt/disk/workrail\n  workrail store restore \
         /mnt/disk/workrail amber-falcon\n\n{EXIT_CODES}"
    ))]
    Restore(RestoreArguments),
    /// Copy all sessions to another store: from a data directory to a database, or back.
    #[command(after_help = format!(
        "FROM and TO are folders or addresses of databases (`postgres://USER@HOST/DATABASE`). Sessions keep their ids and bytes. A copy that was \
         interrupted continues when it is run again, and sessions that grew are brought up to date. At the end every session is \
         read from both stores and compared. The source is not changed.\n\nExamples:\n  \
         workrail store copy ~/.local/share/workrail postgres://workrail@localhost/workrail --with-keys\n  \
         workrail store copy postgres://workrail@localhost/workrail /mnt/disk/sessions --dry-run\n\n{EXIT_CODES}"
    ))]
    Copy(CopyArguments),
    /// Delete old finished or closed sessions and content that no session needs.
    #[command(after_help = format!(
        "A session is deleted when all its runs are finished or closed, it has not been used for the given time, and \
         it is not kept (`workrail session keep`). While any session is damaged or unreadable, no content is \
         deleted.\n\nExamples:\n  workrail store gc --dry-run\n  workrail store gc --ttl 30d\n  workrail store gc \
         --json\n\n{EXIT_CODES}"
    ))]
    Gc(GcArguments),
    /// Repair damaged sessions and content.
    #[command(after_help = format!(
        "A damaged log is cut back to its intact part; the whole log is backed up first. Damaged workflows and \
         snapshots are recomputed; with --from, artifacts, long notes and stored replies are copied from a backup. \
         The damaged file is kept in backups/content.\n\nExamples:\n  workrail store repair sess_a7pgws9t9jhg9wjr --dry-run\n  workrail store repair \
         sess_a7pgws9t9jhg9wjr\n  workrail store repair --all\n  workrail store repair --all --from /mnt/disk/workrail\n\n{EXIT_CODES}"
    ))]
    Repair(RepairArguments),
    /// Manage the keys that sign tokens, and the secret for HTTP.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List passkeys, or reset them when all are lost.
    #[command(subcommand)]
    Passkeys(PasskeysCommand),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// A session id, a run id, a prefix of one, or a run's two-word label. Default: the whole store.
    session: Option<String>,
    /// Check the whole store: sessions, content and stray files. This is the default.
    #[arg(long, conflicts_with = "session")]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// A new or empty folder, or an earlier backup. Not inside the data directory.
    dest: Utf8PathBuf,
    /// Leave out the signing keys.
    #[arg(long)]
    without_keys: bool,
    /// Also verify what the backup already holds, and copy damaged files again.
    #[arg(long)]
    verify: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// A folder that `workrail store backup` wrote, or any other copy of a data directory.
    src: Utf8PathBuf,
    /// Only this session: its id in the backup, a prefix of it, or the label of one of its runs.
    session: Option<String>,
    /// Show what would be restored.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// A data directory, or the address of a database.
    from: String,
    /// A new or empty folder or database, or an earlier copy.
    to: String,
    /// Copy the signing keys too, so that tokens in open chats keep working.
    #[arg(long)]
    with_keys: bool,
    /// Copy into a store that has other sessions.
    #[arg(long)]
    merge: bool,
    /// Show what would be copied.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GcArguments {
    /// Show what would be deleted.
    #[arg(long)]
    dry_run: bool,
    /// How long finished or closed sessions are kept: a number and d, h or m, such as 90d. Default: the setting
    /// retention.ttl_days.
    #[arg(long, value_name = "90d")]
    ttl: Option<Ttl>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArguments {
    /// A session id, a prefix of one, or the label of one of its runs.
    #[arg(required_unless_present = "all")]
    session: Option<String>,
    /// Restore damaged content of all sessions. Damaged logs are only reported.
    #[arg(long, conflicts_with = "session")]
    all: bool,
    /// A backup to restore damaged content from.
    #[arg(long, value_name = "BACKUP")]
    from: Option<Utf8PathBuf>,
    /// Show what would be kept, lost and restored.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PasskeysCommand {
    /// Show the passkeys that were ever enrolled, and every reset.
    #[command(after_help = format!(
        "Passkeys are enrolled, replaced and removed in the console.\n\nExamples:\n  workrail store passkeys show\n\n{EXIT_CODES}"
    ))]
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke all passkeys when all are lost. Needs a terminal; the reset stays visible forever.
    #[command(after_help = format!(
        "The next passkey that is enrolled is trusted as the first one. The reset stays visible in the passkey log, in \
         `workrail doctor`, `workrail store verify` and the settings, and in every later decision.\n\n\
         Examples:\n  workrail store passkeys reset\n\n{EXIT_CODES}"
    ))]
    Reset {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Show the fingerprints of the accepted keys.
    #[command(after_help = format!("Examples:\n  workrail store keys show\n\n{EXIT_CODES}"))]
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the secret that requests over HTTP must carry.
    #[command(after_help = format!(
        "`workrail mcp --http` creates the secret when it first starts. Anyone who has it can do everything that agents \
         can do here.\n\nExamples:\n  workrail store keys http-secret\n  export WORKRAIL_HTTP_TOKEN=\"$(workrail store keys http-secret)\"\n  \
         workrail store keys http-secret --new\n\n{EXIT_CODES}"
    ))]
    HttpSecret {
        /// Replace the secret. Restart HTTP servers and reconfigure clients afterwards.
        #[arg(long)]
        new: bool,
        /// Do not ask for confirmation.
        #[arg(long, requires = "new")]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a new keyring when it is lost or unusable. Tokens in open chats stop working.
    #[command(after_help = format!(
        "The unusable keys are moved aside, not deleted. Sessions do not change: agents find their runs with \
         resume_session.\n\nExamples:\n  workrail store keys new\n  workrail store keys new --yes --json\n\n{EXIT_CODES}"
    ))]
    New {
        /// Also replace keys in a database that this machine cannot decrypt. All other servers and open chats lose them.
        #[arg(long)]
        replace_encrypted: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Sign new tokens with a new key. Tokens of the previous key stay valid until the next rotation.
    #[command(after_help = format!("Examples:\n  workrail store keys rotate\n  workrail store keys rotate --yes --json\n\n{EXIT_CODES}"))]
    Rotate {
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: UpkeepCommand) -> ExitCode {
    let (done, json) = match command {
        UpkeepCommand::Verify(arguments) => (verify::run(&arguments), arguments.json),
        UpkeepCommand::Backup(arguments) => (backup::back_up(&arguments), arguments.json),
        UpkeepCommand::Restore(arguments) => (backup::restore(&arguments), arguments.json),
        UpkeepCommand::Copy(arguments) => (copy::run(&arguments), arguments.json),
        UpkeepCommand::Gc(arguments) => (gc::run(&arguments), arguments.json),
        UpkeepCommand::Repair(arguments) => (repair::run(&arguments), arguments.json),
        UpkeepCommand::Passkeys(PasskeysCommand::Show { json }) => {
            (passkeys::show(Format::json_if(json)), json)
        }
        UpkeepCommand::Passkeys(PasskeysCommand::Reset { json }) => {
            (passkeys::reset(Format::json_if(json)), json)
        }
        UpkeepCommand::Keys(KeysCommand::Show { json }) => (keys::show(Format::json_if(json)), json),
        UpkeepCommand::Keys(KeysCommand::HttpSecret { new, yes, json }) => {
            let format = Format::json_if(json);
            let confirmation = crate::confirm::UserConfirmation::given_if(yes);
            (if new { keys::new_http_secret(confirmation, format) } else { keys::http_secret(format) }, json)
        }
        UpkeepCommand::Keys(KeysCommand::New { replace_encrypted, yes, json }) => {
            let undecrypted = keys::UndecryptedKeys::replaced_if(replace_encrypted);
            let confirmation = crate::confirm::UserConfirmation::given_if(yes);
            (keys::new(undecrypted, confirmation, Format::json_if(json)), json)
        }
        UpkeepCommand::Keys(KeysCommand::Rotate { yes, json }) => {
            (keys::rotate(crate::confirm::UserConfirmation::given_if(yes), Format::json_if(json)), json)
        }
    };
    outcome::finish(done, Format::json_if(json))
}

/// A progress bar that restarts when another count begins.
pub(crate) struct PhaseProgress {
    what: &'static str,
    bar: Option<(u64, ProgressDisplay)>,
}

impl PhaseProgress {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, bar: None }
    }

    pub(crate) fn at(&mut self, done: u64, total: u64) {
        if self.bar.as_ref().is_none_or(|(known, _)| *known != total) {
            self.bar = Some((total, ProgressDisplay::new(self.what, total)));
        }
        if let Some((_, bar)) = &self.bar {
            bar.at(done);
        }
    }
}

fn row(name: &str, count: u64) -> Vec<String> {
    vec![name.to_owned(), count.to_string()]
}

/// Shows each problem, given as subject, problem and fix, and how many of the `total` are not shown.
fn show_problems<'a>(problems: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a str)>, total: u64) {
    let more = total.saturating_sub(problems.len() as u64);
    for (what, problem, fix) in problems {
        output::toned(Tone::Warning, &format!("{what}: {problem}"));
        output::line(&format!("  {fix}"));
    }
    if more > 0 {
        output::line(&format!("and {more} more problems"));
    }
}

/// A human-readable size.
pub(crate) fn bytes_shown(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let (mut size, mut unit) = (bytes as f64 / 1000.0, 0);
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::bytes_shown;

    #[test]
    fn sizes_are_short() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 KB"),
            (999_949, "999.9 KB"),
            (999_950, "1.0 MB"),
            (12_345_678, "12.3 MB"),
            (u64::MAX, "18446744.1 TB"),
        ] {
            assert_eq!(bytes_shown(bytes), shown);
        }
    }
}
