//! `workrail session purge`: removes a text that must not be kept, such as a password, from a session (G85).
//!
//! The session is copied without the text, the copy is checked, and only then is the old one removed, with the
//! content that only it needed and the indexes that quote it. Finally, everything in the store is searched once more.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek as _, Write, stdin};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use workrail_core::bundle::Purge;
use workrail_engine::upkeep::{ApplyMode, SessionOverview};
use workrail_engine::{ExportFailure, ImportMode, Imported};
use workrail_model::id::SessionId;
use workrail_model::retention::Ttl;

use super::retention::show;
use super::searched::{PIECE_BYTES, SearchOutcome, SearchedStore, TextMatch};
use crate::confirm::{self, UserConfirmation};
use crate::name;
use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::store_kind::StoreKind;
use crate::wiring::{self, AnyEngine, EngineWithStore};

/// Remove a text, such as a password, from a session. Shows the session and asks you to type its id or a run's label.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "The session is replaced by a copy in which the text is [removed]. The copy has a new id, and its runs have new \
     labels. Tokens in open chats stop working; agents find the run with resume_session.\n\nAfterwards every file of \
     the data directory, or every row of the database, is searched, and whatever still contains the text is listed. \
     Copies elsewhere cannot be reached: backups, exported bundles, the chats themselves, your shell's \
     history.\n\nExamples:\n  workrail session purge amber-falcon --text hunter2\n  pass show api-key | workrail \
     session purge amber-falcon --text - --yes\n\n{EXIT_CODES}"
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
    outcome::finish(purge_session(arguments, format), format)
}

fn purge_session(arguments: &PurgeArguments, format: Format) -> Result<(), Failure> {
    let purge =
        Purge::new(&text(arguments)?).map_err(|error| Failure::Usage(format!("Cannot purge: {error}.")))?;
    let EngineWithStore { engine, store } = wiring::open_existing()?;
    let searched = SearchedStore::of(&store)?;
    let old = name::exact(&engine, &arguments.session)?.session;
    let seen = engine.overview_for_removal(old)?;
    if !seen.health.is_healthy() {
        return Err(Failure::Usage(format!(
            "The session is damaged, and a copy would lack what cannot be read. Nothing was changed. Repair it first: \
             `workrail store repair {old}`, or delete it with `workrail session delete {old}`."
        )));
    }
    if format == Format::Text {
        show(&seen);
    }
    let copy = purged_bundle(&engine, old, &purge)?;
    // Bundles omit the path of a workflow's file.
    let is_stored = !searched.in_session(old, &purge)?.is_empty();
    if copy.is_unchanged && !is_stored {
        return Err(Failure::Usage(
            "Nothing in this session contains the text. Nothing was changed.".to_owned(),
        ));
    }
    let answers: Vec<String> =
        seen.runs.iter().map(|run| run.label.clone()).chain([old.to_string()]).collect();
    let prompt = "Type the session's id or a run's label to replace it with a copy without the text:";
    confirm::confirm_by_typing(UserConfirmation::given_if(arguments.yes), prompt, &answers)?;
    let new = engine.import(&mut BufReader::new(copy.file), ImportMode::AsNew)?;
    let found = searched.in_session(new.session, &purge);
    if !matches!(&found, Ok(holders) if holders.is_empty()) {
        discard(&engine, new.session)?;
        let path = found?.into_iter().next().map(|holder| holder.location).unwrap_or_default();
        return Err(Failure::Environment(format!(
            "A copy would still contain the text, in `{path}`. It was removed again, and nothing else was changed."
        )));
    }
    replace(&engine, &seen, new.session)?;
    // The session is already replaced, so a later failure also reports the name of the copy. No session is this old:
    // only unreferenced content is removed.
    let cleaned = engine.clean_up(Ttl::of_days(365_000), ApplyMode::Real, &mut |_, _| {});
    searched.remove_caches(&purge);
    let left = searched.everywhere(&purge);
    let store_kind = wiring::store_kind()?;
    print_result(format, store_kind, old, &new, &left, &others(&left.matches, &engine));
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
    if left.is_clean() { Ok(()) } else { Err(Failure::Problems) }
}

/// Replaces the session with the copy, unless an agent wrote to it since it was copied.
fn replace(engine: &AnyEngine, seen: &SessionOverview, copy: SessionId) -> Result<(), Failure> {
    let old = seen.session_id;
    if seen.is_kept
        && let Err(refused) = engine.keep(copy).and_then(|()| engine.unkeep(old))
    {
        engine.unkeep(copy)?;
        discard(engine, copy)?;
        return Err(refused.into());
    }
    let Err(refused) = engine.delete(seen) else { return Ok(()) };
    if seen.is_kept {
        engine.keep(old)?;
        engine.unkeep(copy)?;
    }
    discard(engine, copy)?;
    Err(refused.into())
}

/// Removes a useless copy.
fn discard(engine: &AnyEngine, copy: SessionId) -> Result<(), Failure> {
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

/// The bundle of a session without the text, in an unnamed file that ends with this process.
struct PurgedBundle {
    file: File,
    is_unchanged: bool,
}

/// Searches everything written through it for the text, and passes it on.
struct Searching<'a, W> {
    purge: &'a Purge,
    out: W,
    /// The end of the previous write: the text may span two writes.
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
            let searched = self.tail.len().saturating_sub(self.purge.longest());
            self.tail.drain(..searched);
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn purged_bundle(engine: &AnyEngine, session: SessionId, purge: &Purge) -> Result<PurgedBundle, Failure> {
    let failed = |failure| match failure {
        ExportFailure::Refused(error) => error.into(),
        ExportFailure::Output(error) => Failure::Environment(error.to_string()),
    };
    // In pieces: a session may be larger than memory.
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
        return Err(Failure::Environment(format!(
            "The text is part of the pinned workflow or of a position in it, which cannot be changed. Nothing was \
             changed. Delete the session with `workrail session delete {session}`, and correct the workflow's file."
        )));
    }
    let Searching { out: mut file, .. } = copy.into_inner().map_err(|error| unwritten(error.into_error()))?;
    file.rewind().map_err(unwritten)?;
    Ok(PurgedBundle { file, is_unchanged })
}

/// The other sessions that contain the text, each with the names of its runs.
fn others(left: &[TextMatch], engine: &AnyEngine) -> Vec<(SessionId, Vec<String>)> {
    let sessions = left.iter().filter_map(|holder| holder.session);
    let mut sessions: Vec<SessionId> = sessions.collect();
    sessions.sort_unstable();
    sessions.dedup();
    let labels = |session: SessionId| {
        let seen = engine.overview(session).ok();
        seen.map(|seen| seen.runs.into_iter().map(|run| run.label).collect()).unwrap_or_default()
    };
    sessions.into_iter().map(|session| (session, labels(session))).collect()
}

fn print_result(
    format: Format,
    store_kind: StoreKind,
    old: SessionId,
    new: &Imported,
    left: &SearchOutcome,
    others: &[(SessionId, Vec<String>)],
) {
    let runs: Vec<&str> = new.runs.iter().map(|run| run.label.as_str()).collect();
    if format == Format::Json {
        let holders: Vec<&str> = left.matches.iter().map(|holder| &*holder.location).collect();
        let others: Vec<_> =
            others.iter().map(|(session, runs)| json!({ "sessionId": session, "runs": runs })).collect();
        output::json(&json!({
            "removedSessionId": old, "sessionId": new.session, "runs": runs, "filesThatStillHoldIt": holders,
            "notSearched": left.unsearched, "otherSessions": others,
        }));
        return;
    }
    output::toned(
        Tone::Good,
        &format!("Removed the text. The session is now {}: {}.", new.session, runs.join(", ")),
    );
    for problem in &left.unsearched {
        output::toned(Tone::Warning, problem);
    }
    match left.matches.as_slice() {
        [] if !left.unsearched.is_empty() => {}
        [] => {
            let what = match store_kind {
                StoreKind::Directory => "No file in the data directory contains the text any more.",
                StoreKind::Database => "No row in the database contains the text any more.",
            };
            output::line(what);
        }
        holders => {
            let what =
                format!("These {} of {} still contain the text:", store_kind.pieces(), store_kind.name());
            output::toned(Tone::Warning, &what);
            holders.iter().for_each(|holder| output::line(&format!("  {}", holder.location)));
        }
    }
    for (session, runs) in others {
        let name = if runs.is_empty() { session.to_string() } else { runs.join(", ") };
        output::line(&format!(
            "Another session contains it: {name}. Purge it too: workrail session purge {session} --text TEXT"
        ));
    }
    if store_kind == StoreKind::Database {
        output::line(
            "Deleted rows stay in the files of PostgreSQL until it cleans up (`VACUUM`), and in its write-ahead log.",
        );
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
