//! `docs/reference/events.md`: every event kind, its required scope and its fields.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;
use workrail_model::event::{Event, EventKind, ScopeRule};

use super::markdown::{code_list, field_table, ref_name, type_text};
use super::schemas;
use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_file() -> Result<GeneratedFile> {
    let schema = schemas::of::<Event>("")?;
    let mut page = format!("<!-- {MARK} -->\n# Events\n\n");
    page.push_str(
        "A session's log is a list of events. Each is one line of JSON in canonical form; `eventIndex` is the only \
         order there is.\nThe schema is [session-event.json](../../schemas/durable/session-event.json).\n\n",
    );
    page.push_str("## Envelope\n\nEvery event has these fields, a `kind` and its `data`.\n\n");
    page.push_str(&field_table(&schema).context("the envelope has fields")?);
    push_kinds(&mut page, &schema)?;
    push_types(&mut page, &schema)?;
    Ok(GeneratedFile { path: "docs/reference/events.md".to_owned(), content: page })
}

fn push_kinds(page: &mut String, schema: &Value) -> Result<()> {
    page.push_str("\n## Kinds\n\n| kind | scope |\n|---|---|\n");
    for kind in EventKind::ALL {
        let name = kind.as_str();
        writeln!(page, "| [`{name}`](#{name}) | {} |", scope_text(kind.scope_rule()))?;
    }
    for kind in EventKind::ALL {
        let payload = payload_name(schema, kind)?;
        let data = definition(schema, payload)?;
        write!(page, "\n### {}\n\nScope: {}.", kind.as_str(), scope_text(kind.scope_rule()))?;
        if let Some(description) = data.get("description").and_then(Value::as_str) {
            write!(page, " {description}")?;
        }
        page.push_str("\n\n");
        page.push_str(&field_table(data).unwrap_or_else(|| "`data` is an empty object.\n".to_owned()));
    }
    Ok(())
}

fn scope_text(rule: ScopeRule) -> &'static str {
    match rule {
        ScopeRule::Absent => "absent",
        ScopeRule::Run => "a run",
        ScopeRule::Node => "a run and a node",
        ScopeRule::NodeOrAbsent => "a run and a node, or absent",
        ScopeRule::Any => "absent, a run, or a run and a node",
    }
}

/// The name of the payload's definition: the branch of the union with this `kind`.
fn payload_name(schema: &Value, kind: EventKind) -> Result<&str> {
    let branches = schema.get("oneOf").and_then(Value::as_array).context("events are a union of kinds")?;
    branches
        .iter()
        .find(|branch| branch.pointer("/properties/kind/const").is_some_and(|name| name == kind.as_str()))
        .and_then(|branch| branch.pointer("/properties/data/$ref"))
        .and_then(Value::as_str)
        .and_then(ref_name)
        .with_context(|| format!("the schema has no payload for {}", kind.as_str()))
}

fn definition<'a>(schema: &'a Value, name: &str) -> Result<&'a Value> {
    schema.get("$defs").and_then(|defs| defs.get(name)).with_context(|| format!("no definition of {name}"))
}

fn push_types(page: &mut String, schema: &Value) -> Result<()> {
    let mut payloads = BTreeSet::new();
    for kind in EventKind::ALL {
        payloads.insert(payload_name(schema, kind)?);
    }
    page.push_str("\n## Types\n");
    let definitions = schema.get("$defs").and_then(Value::as_object).context("the schema has definitions")?;
    for (name, definition) in definitions {
        if payloads.contains(name.as_str()) {
            continue;
        }
        write!(page, "\n### {name}\n\n")?;
        if let Some(description) = definition.get("description").and_then(Value::as_str) {
            write!(page, "{description}\n\n")?;
        }
        push_shape(page, definition)?;
    }
    Ok(())
}

fn push_shape(page: &mut String, definition: &Value) -> Result<()> {
    if let Some(values) = definition.get("enum").and_then(Value::as_array) {
        writeln!(page, "One of {}.", code_list(values.iter()))?;
    } else if let Some(variants) = definition.get("oneOf").and_then(Value::as_array) {
        page.push_str("One of:\n\n");
        for variant in variants {
            writeln!(page, "- {}", variant_text(variant))?;
        }
    } else if let Some(table) = field_table(definition) {
        page.push_str(&table);
    } else {
        writeln!(page, "{}", type_text(definition))?;
    }
    Ok(())
}

/// A variant of a tagged union on one line: its tag first, then its fields.
fn variant_text(variant: &Value) -> String {
    if variant.get("const").is_some() || variant.get("enum").is_some() {
        return with_description(type_text(variant), variant);
    }
    let Some(fields) = variant.get("properties").and_then(Value::as_object) else {
        return type_text(variant);
    };
    let (tags, rest): (Vec<_>, Vec<_>) = fields.iter().partition(|(_, field)| field.get("const").is_some());
    let parts: Vec<String> =
        tags.iter().chain(&rest).map(|(name, field)| format!("`{name}`: {}", type_text(field))).collect();
    with_description(parts.join("; "), variant)
}

fn with_description(text: String, schema: &Value) -> String {
    match schema.get("description").and_then(Value::as_str) {
        Some(description) => format!("{text}. {description}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_section_with_its_payload() {
        let page = generated_file().unwrap().content;
        for kind in EventKind::ALL {
            assert!(page.contains(&format!("\n### {}\n", kind.as_str())), "{}", kind.as_str());
        }
    }

    #[test]
    fn every_linked_type_has_a_section() {
        let page = generated_file().unwrap().content;
        let sections: BTreeSet<String> =
            page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
        for link in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(sections.contains(link), "{link}");
        }
    }
}
