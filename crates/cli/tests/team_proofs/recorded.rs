//! The notes in logs, in order, read without the program under test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use workrail_testkit::postgres::Cluster;

/// A note that can be found in any log.
pub(crate) fn note(name: &str) -> String {
    format!("note-{name}-of-mine")
}

/// The notes of a session in a database.
pub(crate) fn in_database(cluster: &Cluster, database: &str, session: &str) -> Vec<String> {
    let sql = format!(
        "SELECT convert_from(events, 'UTF8') FROM workrail.segment WHERE session = '{session}' ORDER BY next_event"
    );
    notes_in(&cluster.sql(database, &sql))
}

/// The notes of every session in a database.
pub(crate) fn all_in_database(cluster: &Cluster, database: &str) -> BTreeMap<String, Vec<String>> {
    let sql = "SELECT session || ' ' || event FROM workrail.segment, \
               string_to_table(convert_from(events, 'UTF8'), E'\\n') WITH ORDINALITY AS line (event, number) \
               WHERE event <> '' ORDER BY session, next_event, number";
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in cluster.sql(database, sql).lines() {
        let (session, event) = line.split_once(' ').unwrap();
        found.entry(session.to_owned()).or_default().extend(notes_in(event));
    }
    found
}

/// The notes of a session in a data directory.
pub(crate) fn in_directory(data: &Path, session: &str) -> Vec<String> {
    let folder = fs::read_dir(data.join("sessions").join(session).join("events")).unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| notes_in(&fs::read_to_string(file).unwrap())).collect()
}

fn notes_in(events: &str) -> Vec<String> {
    let lines = events.lines().filter(|line| line.contains("\"kind\":\"node_output_appended\""));
    let note = |line: &str| {
        let (from, to) = (line.find("note-")?, line.find("-of-mine")?);
        Some(format!("{}-of-mine", &line[from..to]))
    };
    lines.filter_map(note).collect()
}
