//! Updates a workflow file to the current format: an id with a namespace, and one spelling for everything.
//!
//! Only what changes is edited; comments and layout stay. Spellings never change what a file compiles to; a new
//! id does, because the id is part of the hash (G101).

use std::collections::BTreeMap;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, parse_to_ast};
use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::digest::Sha256;
use workrail_model::name::WorkflowId;

use crate::compile::{FileOrigin, parse_options, suggested_id};

/// Old ids and their replacements, for all files that are migrated together.
pub type Renames = BTreeMap<String, WorkflowId>;

/// A file in the current format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    pub text: String,
    pub changes: Vec<Migration>,
}

/// One thing that was changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Migration {
    /// The workflow's own id.
    Id { from: String, to: String },
    /// A delegation to a workflow that is renamed in the same call.
    Delegation { from: String, to: String },
    /// What the workspace chose for the extension points of a workflow that is renamed in the same call.
    Bindings { from: String, to: String },
    /// An older spelling of a field.
    Spelling { from: String, to: String },
}

impl Migration {
    /// As a person reads it.
    pub fn words(&self) -> String {
        match self {
            Self::Id { from, to } => format!("the id `{from}` becomes `{to}`"),
            Self::Delegation { from, to } => format!("a delegation to `{from}` becomes one to `{to}`"),
            Self::Bindings { from, to } => format!("the bindings of `{from}` become those of `{to}`"),
            Self::Spelling { from, to } => format!("`{from}` is now spelled `{to}`"),
        }
    }
}

/// The id that a file should have; `None` if its id is fine, or if the file cannot be read.
pub fn renamed(text: &str, namespace: Option<&str>, origin: FileOrigin) -> Option<(String, WorkflowId)> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let id = root.get_string("id")?.value.to_string();
    let own = WorkflowId::parse(&id).ok()?;
    let suggested = match own.namespace() {
        Some(WorkflowId::RESERVED_NAMESPACE) => {
            suggested_id(own.as_str().trim_start_matches("wr."), origin, Sha256::of(&[]), |_| false)
        }
        None => suggested_id(own.as_str(), origin, Sha256::of(&[]), |_| false),
        Some(_) => None,
    }?;
    let new = match namespace {
        Some(namespace) => {
            let name = suggested.as_str().split_once('.').map_or(suggested.as_str(), |(_, name)| name);
            WorkflowId::parse(&format!("{namespace}.{name}")).ok()?
        }
        None => suggested,
    };
    Some((id, new))
}

/// The file in the current format; `None` if it is not JSON or JSONC.
pub fn migrated(text: &str, renames: &Renames) -> Option<Migrated> {
    let text = text.trim_start_matches('\u{feff}');
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let mut editor = MigrationEditor { text, renames, edits: Vec::new(), changes: Vec::new() };
    editor.root(root);
    editor.done()
}

/// A workspace's bindings with the sections of renamed workflows under their new ids; `None` if it is not JSON.
pub fn migrated_bindings(text: &str, renames: &Renames) -> Option<Migrated> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let mut editor = MigrationEditor { text, renames, edits: Vec::new(), changes: Vec::new() };
    // A flat file applies to every workflow: its keys are slots.
    for section in root.properties.iter().filter(|property| property.value.as_object().is_some()) {
        editor.section(section);
    }
    editor.done()
}

fn applied(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| edit.start);
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for edit in edits {
        out.push_str(text.get(end..edit.start)?);
        out.push_str(&edit.replacement);
        end = edit.end;
    }
    out.push_str(text.get(end..)?);
    Some(out)
}

struct Edit {
    start: usize,
    end: usize,
    replacement: String,
}

struct MigrationEditor<'t> {
    text: &'t str,
    renames: &'t Renames,
    edits: Vec<Edit>,
    changes: Vec<Migration>,
}

impl MigrationEditor<'_> {
    fn done(self) -> Option<Migrated> {
        Some(Migrated { text: applied(self.text, self.edits)?, changes: self.changes })
    }

    fn section(&mut self, section: &ObjectProp<'_>) {
        let from = section.name.as_str().to_owned();
        let Some(to) = self.renames.get(&from).map(ToString::to_string) else { return };
        let range = section.name.range();
        self.replace(range.start, range.end, format!("\"{to}\""));
        self.changes.push(Migration::Bindings { from, to });
    }

    fn replace(&mut self, start: usize, end: usize, replacement: String) {
        self.edits.push(Edit { start, end, replacement });
    }

    fn root(&mut self, root: &Object<'_>) {
        if let Some(id) = root.get("id") {
            self.id(id, |from, to| Migration::Id { from, to });
        }
        self.steps(root.get("steps"));
    }

    fn id(&mut self, member: &ObjectProp<'_>, change: fn(String, String) -> Migration) {
        let Some(old) = member.value.as_string_lit() else { return };
        let Some(new) = self.renames.get(old.value.as_ref()) else { return };
        let range = old.range();
        self.changes.push(change(old.value.to_string(), new.to_string()));
        self.replace(range.start, range.end, format!("\"{new}\""));
    }

    fn steps(&mut self, list: Option<&ObjectProp<'_>>) {
        let Some(list) = list.and_then(|list| list.value.as_array()) else { return };
        for step in list.elements.iter().filter_map(Value::as_object) {
            self.step(step);
        }
    }

    fn step(&mut self, step: &Object<'_>) {
        match kind_of(step) {
            Some("template_call") => self.template_call(step),
            Some("loop") if step.get("id").is_none() => self.rename(step, "loopId", "id"),
            Some(_) | None => {}
        }
        if step.get("templateCall").is_none() {
            self.rename(step, "template_call", "templateCall");
        }
        self.output(step);
        for delegation in delegations(step) {
            if let Some(id) = delegation.get("workflowId") {
                self.id(id, |from, to| Migration::Delegation { from, to });
            }
        }
        self.steps(step.get("body"));
    }

    fn rename(&mut self, object: &Object<'_>, from: &str, to: &str) {
        let Some(member) = object.get(from) else { return };
        let range = member.name.range();
        self.changes.push(Migration::Spelling { from: from.to_owned(), to: to.to_owned() });
        self.replace(range.start, range.end, format!("\"{to}\""));
    }

    /// `output` without hints is `outputContract`.
    fn output(&mut self, step: &Object<'_>) {
        let Some(output) = step.get_object("output") else { return };
        let is_contract = |name: &str| matches!(name, "contractRef" | "required");
        let has_contract = output.get("contractRef").is_some();
        let same = output.properties.iter().all(|member| is_contract(member.name.as_str()));
        if has_contract && same && step.get("outputContract").is_none() {
            self.rename(step, "output", "outputContract");
        }
    }

    /// `type: template_call` with `templateId` and `args` is `templateCall`.
    fn template_call(&mut self, step: &Object<'_>) {
        let (Some(template), Some(kind)) = (step.get("templateId"), step.get("type")) else { return };
        if step.get("templateCall").is_some() || step.get("template_call").is_some() {
            return;
        }
        let args = step.get("args");
        let raw = |value: &Value<'_>| self.text[value.range().start..value.range().end].to_owned();
        let args_text = args.map(|args| format!(", \"args\": {}", raw(&args.value))).unwrap_or_default();
        let call = format!("\"templateCall\": {{ \"templateId\": {}{args_text} }}", raw(&template.value));
        self.changes.push(Migration::Spelling {
            from: "type: template_call".to_owned(),
            to: "templateCall".to_owned(),
        });
        let range = template.range();
        self.replace(range.start, range.end, call);
        let removed: Vec<usize> =
            [Some(kind), args].into_iter().flatten().map(|own| own.range().start).collect();
        self.remove(step, &removed);
    }

    /// Removes members, named by where they start, together with their commas.
    fn remove(&mut self, object: &Object<'_>, starts: &[usize]) {
        let is_removed = |property: &ObjectProp<'_>| starts.contains(&property.range().start);
        let mut kept_before = None;
        let mut members = object.properties.iter().peekable();
        while let Some(member) = members.next() {
            if !is_removed(member) {
                kept_before = Some(member.range().end);
                continue;
            }
            // Neighbours are removed as one, so that no two edits overlap.
            let mut end = member.range().end;
            while let Some(next) = members.next_if(|next| is_removed(next)) {
                end = next.range().end;
            }
            match (kept_before, members.peek()) {
                (Some(before), _) => self.replace(before, end, String::new()),
                (None, Some(after)) => self.replace(member.range().start, after.range().start, String::new()),
                (None, None) => self.replace(member.range().start, end, String::new()),
            }
        }
    }
}

fn kind_of<'o>(step: &'o Object<'_>) -> Option<&'o str> {
    step.get_string("type").map(|kind| kind.value.as_ref())
}

fn delegations<'o, 't>(step: &'o Object<'t>) -> impl Iterator<Item = &'o Object<'t>> {
    let list = step.get_array("parallelDelegations");
    list.into_iter().flat_map(|list| list.elements.iter().filter_map(Value::as_object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{CompileInput, compile};

    fn hash(text: &str) -> String {
        compile(CompileInput::new(text.as_bytes(), "x.json")).unwrap().hash().unwrap().to_string()
    }

    const OLD: &str = r#"{
      // why it exists
      "id": "team.x", "name": "X", "description": "d", "version": "1.0.0",
      "steps": [
        { "id": "review", "type": "template_call", "title": "Review",
          "templateId": "wr.templates.routine.design-review", "args": { "deliverableName": "plan.md" } },
        { "type": "template_call", "templateId": "wr.templates.capability_probe", "id": "probe", "title": "P" },
        { "loopId": "rounds", "type": "loop", "loop": { "type": "for", "count": 2, "maxIterations": 2 }, "body": [
          { "id": "a", "title": "A", "prompt": "Do.", "output": { "contractRef": "wr.contracts.loop_control", "required": false } },
          { "id": "b", "title": "B", "prompt": "Do.", "output": { "hints": "short" } }
        ] }
      ]
    }"#;

    #[test]
    fn spellings_change_the_text_and_not_the_workflow() {
        let done = migrated(OLD, &Renames::new()).unwrap();
        insta::assert_snapshot!(done.text);
        let words: Vec<String> = done.changes.iter().map(Migration::words).collect();
        insta::assert_snapshot!(words.join("\n"));
        assert_eq!(
            migrated(&done.text, &Renames::new()).unwrap().changes,
            [],
            "a second time nothing is left"
        );
    }

    #[test]
    fn members_that_are_removed_may_follow_each_other() {
        let step = |members: &str| {
            let text = format!(r#"{{"id":"a.b","steps":[{{{members}}}]}}"#);
            migrated(&text, &Renames::new()).map(|done| done.text)
        };
        let expected = |members: &str| Some(format!(r#"{{"id":"a.b","steps":[{{{members}}}]}}"#));
        let call = r#""templateCall": { "templateId": "x", "args": {} }"#;
        assert_eq!(
            step(r#""type":"template_call","args":{},"templateId":"x","id":"s""#),
            expected(&format!(r#"{call},"id":"s""#))
        );
        assert_eq!(
            step(r#""id":"s","templateId":"x","type":"template_call","args":{}"#),
            expected(&format!(r#""id":"s",{call}"#))
        );
        assert_eq!(
            step(r#""args":{},"id":"s","type":"template_call","templateId":"x""#),
            expected(&format!(r#""id":"s",{call}"#))
        );
    }

    #[test]
    fn a_migrated_file_compiles_to_the_same() {
        let old = OLD.replace(
            r#"{ "type": "template_call", "templateId": "wr.templates.capability_probe", "id": "probe", "title": "P" },"#,
            "",
        );
        let new = migrated(&old, &Renames::new()).unwrap().text;
        assert_ne!(old, new);
        assert_eq!(hash(&old), hash(&new));
    }

    #[test]
    fn an_id_is_renamed_in_all_files_of_one_call() {
        let file = |id: &str| {
            format!(
                r#"{{ "id": "{id}", "steps": [{{ "id": "p", "type": "parallel", "title": "P", "parallelDelegations": [{{ "workflowId": "my-review" }}] }}] }}"#
            )
        };
        let (old, new) = renamed(&file("my-review"), None, FileOrigin::Project).unwrap();
        assert_eq!((old.as_str(), new.as_str()), ("my-review", "project.my_review"));
        let (_, new) = renamed(&file("wr.review"), Some("acme"), FileOrigin::Project).unwrap();
        assert_eq!(new.as_str(), "acme.review");
        assert_eq!(
            renamed(&file("acme.review"), Some("team"), FileOrigin::Project),
            None,
            "it has a namespace"
        );
        let renames = Renames::from([("my-review".to_owned(), WorkflowId::parse("acme.review").unwrap())]);
        let done = migrated(&file("acme.other"), &renames).unwrap();
        assert_eq!(done.text, file("acme.other").replace("my-review", "acme.review"));
    }
}
