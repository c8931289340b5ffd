//! `workrail session purge`: a session without a text that must not be kept, such as a password (G85).
//!
//! The session is copied without the text, the copy is checked, and only then is the old one removed, with the content
//! that only it needed and the indexes that quote it. In the end every file of the data directory is read once more.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek as _, Write, stdin};
use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::json;
use workrail_core::bundle::Purge;
use workrail_engine::upkeep::{Mode, Overview};
use workrail_engine::{ExportFailure, ImportMode, Imported};
use workrail_host::data_dir::data_dir;
use workrail_model::id::SessionId;
use workrail_model::retention::Ttl;

use super::retention::show;
use crate::confirm::{self, AskFirst};
use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::wiring::{DirectoryOnly, LocalEngine};
use crate::{name, settings};

const PURGE: DirectoryOnly = DirectoryOnly {
    command: "session purge",
    instead: "To take a secret out of a session in a database, export the session with `workrail session export --redact`; \
              nothing can be removed from the database yet.",
};

/// Files are read in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Remove a text, such as a password, from a session. Shows the session and asks you to type its id or a run's label.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "The session is replaced by a copy in which the text is [removed]. The copy has a new id, and its runs have new labels. \
     Tokens in open chats stop working; agents find the run with resume_session.\n\n\
     Afterwards every file of the data directory is searched, and what still holds the text is named. Copies elsewhere \
     cannot be reached: backups, exported bundles, the chats themselves, your shell's history.\n\n\
     Examples:\n  workrail session purge amber-falcon --text hunter2\n  \
     pass show api-key | workrail session purge amber-falcon --text - --yes\n\n{EXIT_CODES}"
))]
pub(crate) struct PurgeArguments {
    /// A session id, a run id, a prefix of one, or a run's whole label.
    session: String,
    /// The text to remove, exactly as it was recorded. `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    text: String,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &PurgeArguments) -> ExitCode {
    let format = Format::json_if(arguments.json);
    outcome::finish(purged(arguments, format), format)
}

fn purged(arguments: &PurgeArguments, format: Format) -> Result<(), Failure> {
    let purge = Purge::new(&text(arguments)?).map_err(|error| Failure::Call(format!("{error}.")))?;
    let engine = PURGE.change()?;
    let old = name::exact(&engine, &arguments.session)?.session;
    let seen = engine.overview(old)?;
    if !seen.health.is_healthy() {
        return Err(Failure::Call(
            "The session is damaged, and a copy would lack what cannot be read. Nothing was changed. Repair it first: \
             `workrail store repair`, or delete it with `workrail session delete`."
                .to_owned(),
        ));
    }
    if format == Format::Text {
        show(&seen);
    }
    let copy = copied(&engine, old, &purge)?;
    let root =
        data_dir(&settings::current()?.settings).map_err(|error| Failure::Environment(error.to_string()))?;
    // Bundles leave out the path of a workflow's file.
    let is_stored = !holding(&root.join("sessions").join(old.to_string()), &purge)?.is_empty();
    if copy.is_unchanged && !is_stored {
        return Err(Failure::Call(
            "Nothing that this session recorded holds the text. Nothing was changed.".to_owned(),
        ));
    }
    let answers: Vec<String> =
        seen.runs.iter().map(|run| run.label.clone()).chain([old.to_string()]).collect();
    let prompt = "Type the session's id or a run's label to replace it by a copy without the text:";
    confirm::typed(AskFirst::unless(arguments.yes), prompt, &answers)?;
    let new = engine.import(&mut BufReader::new(copy.file), ImportMode::AsNew)?;
    let session_folder = root.join("sessions").join(new.session.to_string());
    let found = holding(&session_folder, &purge);
    if !matches!(&found, Ok(paths) if paths.is_empty()) {
        discard(&engine, new.session)?;
        let path = found?.first().map(ToString::to_string).unwrap_or_default();
        return Err(Failure::Environment(format!(
            "A copy would still hold the text, in `{path}`. It was removed again, and nothing else was changed."
        )));
    }
    replace(&engine, &seen, new.session)?;
    // The session is replaced now, so a later failure is reported together with the name of the copy.
    // No session is as old as this: only content that nobody needs any more goes.
    let cleaned = engine.clean_up(Ttl::of_days(365_000), Mode::Real, &mut |_, _| {});
    let uncached = remove_caches(&root, &purge);
    let left = holding(&root, &purge);
    let found = left.as_deref().unwrap_or_default();
    told(format, old, &new, left.as_ref().ok().map(Vec::as_slice), &others(found, &root, &engine));
    let unswept = match &cleaned {
        Ok(cleaned) => cleaned.stopped.as_ref().or(cleaned.safe_mode.as_ref()),
        Err(error) => Some(&**error),
    };
    if let Some(refused) = unswept {
        output::notice(&format!(
            "Content was not cleaned up: {} Run `workrail store gc` later.",
            refused.message
        ));
    }
    uncached?;
    if left?.is_empty() { Ok(()) } else { Err(Failure::Problems) }
}

/// Puts the copy in the place of the session, unless somebody wrote to it since it was copied.
fn replace(engine: &LocalEngine, seen: &Overview, copy: SessionId) -> Result<(), Failure> {
    let old = seen.session_id;
    if seen.is_kept {
        engine.keep(copy)?;
        engine.unkeep(old)?;
    }
    let Err(refused) = engine.delete(seen) else { return Ok(()) };
    if seen.is_kept {
        engine.keep(old)?;
        engine.unkeep(copy)?;
    }
    discard(engine, copy)?;
    Err(refused.into())
}

/// Removes a copy that is of no use.
fn discard(engine: &LocalEngine, copy: SessionId) -> Result<(), Failure> {
    engine.delete(&engine.overview(copy)?)?;
    Ok(())
}

fn text(arguments: &PurgeArguments) -> Result<String, Failure> {
    if arguments.text != "-" {
        return Ok(arguments.text.clone());
    }
    let mut text = String::new();
    stdin().read_to_string(&mut text).map_err(|error| Failure::Environment(error.to_string()))?;
    Ok(text)
}

/// The bundle of a session without the text, in a file that has no name and ends with this process.
struct Copied {
    file: File,
    is_unchanged: bool,
}

/// Looks for the text in what is written through it, and passes it on.
struct Searching<'a, W> {
    purge: &'a Purge,
    out: W,
    /// The end of what came before: the text may span two writes.
    tail: Vec<u8>,
    is_found: bool,
}

impl<'a, W: Write> Searching<'a, W> {
    fn new(purge: &'a Purge, out: W) -> Self {
        Self { purge, out, tail: Vec::new(), is_found: false }
    }
}

impl<W: Write> Write for Searching<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        if !self.is_found {
            self.tail.extend_from_slice(&bytes[..written]);
            self.is_found = self.purge.is_in(&self.tail);
            let kept = self.tail.len().saturating_sub(self.purge.longest());
            self.tail.drain(..kept);
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn copied(engine: &LocalEngine, session: SessionId, purge: &Purge) -> Result<Copied, Failure> {
    let failed = |failure| match failure {
        ExportFailure::Refused(error) => error.into(),
        ExportFailure::Output(error) => Failure::Environment(error.to_string()),
    };
    // In pieces: a session may be larger than the memory.
    let unwritten = |error: std::io::Error| Failure::Environment(error.to_string());
    let mut whole = BufWriter::with_capacity(PIECE_BYTES, Searching::new(purge, std::io::sink()));
    engine.export(session, None, &mut whole, &mut |_, _| {}).map_err(failed)?;
    whole.flush().map_err(unwritten)?;
    let is_unchanged = !whole.get_ref().is_found;
    let file = tempfile::tempfile().map_err(unwritten)?;
    let mut copy = BufWriter::with_capacity(PIECE_BYTES, Searching::new(purge, file));
    engine.export_without(session, purge, &mut copy, &mut |_, _| {}).map_err(failed)?;
    copy.flush().map_err(unwritten)?;
    if copy.get_ref().is_found {
        return Err(Failure::Environment(
            "The text is part of the pinned workflow or of a position in it, which cannot be changed. Nothing was \
             changed. Delete the session with `workrail session delete`, and correct the workflow's file."
                .to_owned(),
        ));
    }
    let Searching { out: mut file, .. } = copy.into_inner().map_err(|error| unwritten(error.into_error()))?;
    file.rewind().map_err(unwritten)?;
    Ok(Copied { file, is_unchanged })
}

/// Indexes and caches quote goals and titles. They are made again when they are missing (G18).
fn remove_caches(root: &Utf8Path, purge: &Purge) -> Result<(), Failure> {
    for path in holding(&root.join("cache"), purge)? {
        std::fs::remove_file(&path).map_err(|error| unreadable(&path, &error))?;
    }
    Ok(())
}

/// Every file beneath a folder that holds the text.
fn holding(folder: &Utf8Path, purge: &Purge) -> Result<Vec<Utf8PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match folder.read_dir_utf8() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| unreadable(&folder, &error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let kind = entry.file_type().map_err(|error| unreadable(entry.path(), &error))?;
            if kind.is_dir() {
                open.push(entry.path().to_owned());
            } else if kind.is_file() && holds(entry.path(), purge)? {
                found.push(entry.path().to_owned());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn holds(path: &Utf8Path, purge: &Purge) -> Result<bool, Failure> {
    let mut file = match File::open(path) {
        // A server may end, or tidy up, meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(|error| unreadable(path, &error))?,
    };
    let mut piece = Vec::new();
    loop {
        let read = (&mut file)
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece)
            .map_err(|error| unreadable(path, &error))?;
        if purge.is_in(&piece) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        // What spans two pieces is seen with the next one.
        let kept = piece.len().saturating_sub(purge.longest());
        piece.drain(..kept);
    }
}

fn unreadable(path: &Utf8Path, error: &std::io::Error) -> Failure {
    Failure::Environment(format!("`{path}` cannot be searched: {error}"))
}

/// The other sessions that hold the text, each with what its runs are called.
fn others(left: &[Utf8PathBuf], root: &Utf8Path, engine: &LocalEngine) -> Vec<(SessionId, Vec<String>)> {
    let folder = root.join("sessions");
    let sessions = left.iter().filter_map(|path| {
        let name = path.strip_prefix(&folder).ok()?.components().next()?;
        SessionId::parse(name.as_str()).ok()
    });
    let mut sessions: Vec<SessionId> = sessions.collect();
    sessions.dedup();
    let labels = |session: SessionId| {
        let seen = engine.overview(session).ok();
        seen.map(|seen| seen.runs.into_iter().map(|run| run.label).collect()).unwrap_or_default()
    };
    sessions.into_iter().map(|session| (session, labels(session))).collect()
}

fn told(
    format: Format,
    old: SessionId,
    new: &Imported,
    left: Option<&[Utf8PathBuf]>,
    others: &[(SessionId, Vec<String>)],
) {
    let runs: Vec<&str> = new.runs.iter().map(|run| run.label.as_str()).collect();
    if format == Format::Json {
        let others: Vec<_> =
            others.iter().map(|(session, runs)| json!({ "sessionId": session, "runs": runs })).collect();
        output::json(&json!({
            "removedSessionId": old, "sessionId": new.session, "runs": runs, "filesThatStillHoldIt": left,
            "otherSessions": others,
        }));
        return;
    }
    output::toned(
        Tone::Good,
        &format!("Removed the text. The session is now {}: {}.", new.session, runs.join(", ")),
    );
    match left {
        None => output::toned(Tone::Warning, "Whether another file holds the text could not be found out."),
        Some([]) => output::line("No file of the data directory holds the text any more."),
        Some(left) => {
            output::toned(Tone::Warning, "These files of the data directory still hold the text:");
            left.iter().for_each(|path| output::line(&format!("  {path}")));
        }
    }
    for (session, runs) in others {
        let name = if runs.is_empty() { session.to_string() } else { runs.join(", ") };
        output::line(&format!(
            "Another session holds it: {name}. Purge it as well: workrail session purge {session} --text TEXT"
        ));
    }
    output::line(
        "Not searched: backups elsewhere, exported bundles, chats, and your shell's history. If it is a password or a key, replace it.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_spans_two_writes_is_found() {
        let purge = Purge::new("hunter2-secret").unwrap();
        for cut in 0..=purge.longest() {
            let mut searching = Searching::new(&purge, Vec::new());
            let (first, second) = "a hunter2-secret b".split_at(cut);
            searching.write_all(first.as_bytes()).unwrap();
            searching.write_all(second.as_bytes()).unwrap();
            assert!(searching.is_found, "cut after {cut} bytes");
            assert_eq!(searching.out, b"a hunter2-secret b");
        }
        let mut searching = Searching::new(&purge, Vec::new());
        searching.write_all(b"a hunter2 b").unwrap();
        assert!(!searching.is_found);
    }
}
