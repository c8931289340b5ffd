//! Artifacts as tables if their contract says so.
//!
//! A contract says so by its schema, the one pinned with the run: a member that is a list of objects
//! is a table, its members are the columns. Rows with a `path` are keyed by it, so that a later row for the
//! same file replaces an earlier one, and are in byte order; rows with a `severity` are in the order in
//! which the contract lists the severities. Everything else keeps the order of the artifact. An artifact
//! whose kind is in no contract of the workflow is shown as it is: nothing is guessed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use workrail_model::compiled::{CompiledContract, CompiledWorkflow};

use super::{ArtifactView, Field, Table};

/// What a reader looks for first comes first; other columns follow by name.
const FIRST_COLUMNS: [&str; 16] = [
    "severity",
    "risk",
    "result",
    "path",
    "location",
    "name",
    "title",
    "summary",
    "direction",
    "assumed",
    "actual",
    "rationale",
    "reason",
    "suggestion",
    "body",
    "relevance",
];
const KEY: &str = "path";
const RANK: &str = "severity";

/// The artifact under the contract of its kind, if the pinned workflow has one with a list of rows.
pub(super) fn shown(workflow: Option<&CompiledWorkflow>, kind: &str, value: Value) -> ArtifactView {
    let contract = workflow
        .and_then(|workflow| workflow.contracts.iter().find(|contract| contract.artifact_kind == kind));
    let Some((contract, Value::Object(members))) = contract.map(|contract| (contract, &value)) else {
        return ArtifactView::Json { value };
    };
    let mut tables = Vec::new();
    let mut fields = Vec::new();
    for (name, member) in members.iter().filter(|(name, _)| *name != "kind") {
        match table(contract, name, member) {
            Some(table) => tables.push(table),
            None => fields.push(Field { name: heading(name), text: cell(member) }),
        }
    }
    if tables.is_empty() { ArtifactView::Json { value } } else { ArtifactView::Tables { tables, fields } }
}

/// The column that says how each reported check is known.
const GRADE: &str = "How it is known";
const CHECKS: &str = "Checks";

/// A report of checks with the grade of each (G104); anything else unchanged.
pub(super) fn graded(shown: ArtifactView, grades: Vec<String>) -> ArtifactView {
    let ArtifactView::Tables { mut tables, fields } = shown else { return shown };
    let checks = tables.iter_mut().find(|table| table.title == CHECKS && table.rows.len() == grades.len());
    if let Some(table) = checks.filter(|_| !grades.is_empty()) {
        table.columns.push(GRADE.to_owned());
        for (row, grade) in table.rows.iter_mut().zip(grades) {
            row.push(grade);
        }
    }
    ArtifactView::Tables { tables, fields }
}

/// Merges a later table of the same kind into an earlier one, by key. Tables without a key are not merged.
pub(super) fn merged(earlier: &mut Vec<Table>, later: &Table) {
    let key = heading(KEY);
    let Some(position) = later.columns.iter().position(|column| *column == key) else { return };
    match earlier.iter_mut().find(|table| table.title == later.title && table.columns == later.columns) {
        None => earlier.push(later.clone()),
        Some(table) => {
            let rows = table.rows.iter().chain(&later.rows);
            let by_key: BTreeMap<String, Vec<String>> =
                rows.map(|row| (row.get(position).cloned().unwrap_or_default(), row.clone())).collect();
            table.rows = by_key.into_values().collect();
        }
    }
}

fn table(contract: &CompiledContract, name: &str, member: &Value) -> Option<Table> {
    let schema = contract.schema.get("properties")?.get(name)?;
    let items = schema.get("items").filter(|_| schema.get("type") == Some(&Value::from("array")))?;
    let declared = items.get("properties")?.as_object()?;
    let rows: Option<Vec<&Map<String, Value>>> = member.as_array()?.iter().map(Value::as_object).collect();
    let rows = ordered(rows?, declared);
    let used = |column: &&String| rows.iter().any(|row| row.contains_key(column.as_str()));
    let mut columns: Vec<&String> = declared.keys().filter(used).collect();
    // A reviewer may add columns that the contract allows without naming them.
    let mut further: Vec<&String> =
        rows.iter().flat_map(|row| row.keys()).filter(|key| !declared.contains_key(key.as_str())).collect();
    further.sort();
    further.dedup();
    columns.extend(further);
    columns.sort_by_key(|column| {
        let first = FIRST_COLUMNS.iter().position(|first| first == column);
        (first.unwrap_or(FIRST_COLUMNS.len()), column.as_str())
    });
    let line = |row: &&Map<String, Value>| -> Vec<String> {
        columns.iter().map(|column| row.get(column.as_str()).map(cell).unwrap_or_default()).collect()
    };
    Some(Table {
        title: heading(name),
        rows: rows.iter().map(line).collect(),
        columns: columns.iter().map(|column| heading(column)).collect(),
    })
}

fn ordered<'a>(
    rows: Vec<&'a Map<String, Value>>,
    declared: &Map<String, Value>,
) -> Vec<&'a Map<String, Value>> {
    if declared.contains_key(KEY) {
        let keyed: BTreeMap<&str, &Map<String, Value>> =
            rows.iter().map(|row| (row.get(KEY).and_then(Value::as_str).unwrap_or_default(), *row)).collect();
        return keyed.into_values().collect();
    }
    let ranks = declared.get(RANK).and_then(|schema| schema.get("enum")).and_then(Value::as_array);
    let mut rows = rows;
    if let Some(ranks) = ranks {
        // Stable: rows of one severity keep the order in which they were written.
        rows.sort_by_key(|row| {
            ranks.iter().position(|rank| Some(rank) == row.get(RANK)).unwrap_or(ranks.len())
        });
    }
    rows
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) if items.iter().all(|item| item.is_string()) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        Value::Object(members) => location(members).unwrap_or_else(|| value.to_string()),
        Value::Array(_) => value.to_string(),
    }
}

/// A position in a file, in the form that editors understand.
fn location(members: &Map<String, Value>) -> Option<String> {
    let file = members.get("file")?.as_str()?;
    match members.get("line") {
        None if members.len() == 1 => Some(file.to_owned()),
        Some(line) if members.len() == 2 => Some(format!("{file}:{line}")),
        Some(_) | None => None,
    }
}

/// `changedFiles` as `Changed files`.
fn heading(name: &str) -> String {
    let mut text = String::new();
    for (position, c) in name.chars().enumerate() {
        match c {
            _ if position == 0 => text.extend(c.to_uppercase()),
            '_' => text.push(' '),
            _ if c.is_ascii_uppercase() => {
                text.push(' ');
                text.push(c.to_ascii_lowercase());
            }
            _ => text.push(c),
        }
    }
    text
}
