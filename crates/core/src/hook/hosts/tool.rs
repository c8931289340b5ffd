//! What a tool call does, from its name and arguments. One table has the names of all hosts: none has two meanings.

use serde_json::Value;
use workrail_model::shell;
use workrail_model::tool::ToolName;

use super::HookInput;
use crate::hook::{ToolResult, ToolUse, patch, refused_command};

const SHELLS: [&str; 11] = [
    "Bash",
    "bash",
    "Shell",
    "shell",
    "exec_command",
    "local_shell",
    "run_shell_command",
    "run_in_terminal",
    "runInTerminal",
    "PowerShell",
    "powershell",
];

const EDITORS: [&str; 22] = [
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "write_file",
    "replace",
    "create_file",
    "replace_string_in_file",
    "multi_replace_string_in_file",
    "insert_edit_into_file",
    "edit_notebook_file",
    "editFiles",
    "edit_file",
    "delete_file",
    "edit",
    "write",
    "create",
    "str_replace_editor",
    "patch",
    "apply_patch",
    "Delete",
    "delete",
];

/// Members that hold a path, or a list of things with one.
const PATHS: [&str; 7] =
    ["file_path", "filePath", "path", "notebook_path", "notebookPath", "target_file", "uri"];
const LISTS: [&str; 3] = ["files", "replacements", "edits"];
/// Members that hold a patch.
const PATCHES: [&str; 5] = ["input", "patch", "patchText", "patch_text", "command"];

/// How much of a result is examined; our own replies are much shorter.
const TEXT_BYTES_MAX: usize = 512 * 1024;
const DEPTH_MAX: usize = 8;

pub(super) fn tool_use(name: &str, arguments: Option<&Value>) -> ToolUse {
    if let Some(own) = own_tool(name) {
        return ToolUse::Own(own);
    }
    // Some hosts send arguments as JSON in a text.
    let parsed = arguments.and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let arguments = parsed.as_ref().or(arguments);
    if SHELLS.contains(&name) {
        return arguments.and_then(command).map_or(ToolUse::Other, shell);
    }
    if EDITORS.contains(&name) {
        let paths = arguments.map(paths).unwrap_or_default();
        return ToolUse::Edit { paths };
    }
    ToolUse::Other
}

/// A shell line. One that applies a patch counts as an edit, unless it also has a command that is for people.
pub(super) fn shell(command: String) -> ToolUse {
    let is_patch = command.trim_start().starts_with("apply_patch")
        && command.contains("*** Begin Patch")
        && refused_command(&command).is_none();
    match is_patch {
        true => ToolUse::Edit { paths: patch::paths(&command) },
        false => ToolUse::Shell { command },
    }
}

/// One of our tools: its name without the host's prefix for the server.
pub(super) fn own_tool(name: &str) -> Option<ToolName> {
    let fits = |tool: &ToolName| {
        name.strip_suffix(tool.as_str())
            .is_some_and(|before| before.is_empty() || before.ends_with(['_', '-', ':', '.', '/']))
    };
    ToolName::ALL.into_iter().find(fits)
}

fn command(arguments: &Value) -> Option<String> {
    let given = arguments.get("command").or_else(|| arguments.get("cmd"))?;
    if let Some(line) = given.as_str() {
        return Some(line.to_owned());
    }
    let words: Vec<&str> = given.as_array()?.iter().filter_map(Value::as_str).collect();
    match words.as_slice() {
        [_, flag, line] if flag.starts_with('-') && flag.ends_with('c') => Some((*line).to_owned()),
        words => Some(shell::line(words)),
    }
}

fn paths(arguments: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |own: &Value| {
        let named = PATHS.iter().filter_map(|name| own.get(name).and_then(Value::as_str));
        found.extend(named.map(str::to_owned));
    };
    take(arguments);
    for list in LISTS.iter().filter_map(|name| arguments.get(name).and_then(Value::as_array)) {
        list.iter().for_each(&mut take);
    }
    let plain =
        arguments.get("files").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    found.extend(plain.map(str::to_owned));
    let patches = PATCHES.iter().filter_map(|name| arguments.get(name).and_then(Value::as_str));
    found.extend(arguments.as_str().into_iter().chain(patches).flat_map(patch::paths));
    found.iter_mut().for_each(|path| {
        if let Some(plain) = path.strip_prefix("file://") {
            *path = plain.to_owned();
        }
    });
    found
}

/// All text in a value, one line each.
pub(super) fn texts(value: &Value) -> String {
    let mut all = String::new();
    collect(value, DEPTH_MAX, &mut all);
    all
}

fn collect(value: &Value, depth: usize, all: &mut String) {
    if depth == 0 || all.len() >= TEXT_BYTES_MAX {
        return;
    }
    match value {
        Value::String(text) => {
            all.push_str(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
            all.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth - 1, all)),
        Value::Object(members) => members.values().for_each(|member| collect(member, depth - 1, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A result without what only some hosts report.
pub(super) fn result(response: Option<&Value>) -> ToolResult {
    ToolResult { text: response.map(texts).unwrap_or_default(), ..ToolResult::default() }
}

/// The number after a phrase, as in `Exit code 3`.
pub(super) fn code_after(text: &str, phrase: &str) -> Option<i64> {
    let rest = text[text.rfind(phrase)? + phrase.len()..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

pub(super) fn duration(input: &HookInput, name: &str) -> Option<u64> {
    let given = input.get(name)?;
    given.as_u64().or_else(|| given.as_f64().filter(|ms| *ms >= 0.0).map(|ms| ms as u64))
}
