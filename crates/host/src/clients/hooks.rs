//! Hooks in a host's JSON: entries that run `workrail hook HOST EVENT`.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject};
use workrail_model::shell;

use super::json::{array_in, ended, object_in, parsed, prune, same, string, text_in};
use super::table::{HookFile, HookFileVersion, HookShape, HookTrigger, Timeout};

const HOOKS: &str = "hooks";
const VERSION: &str = "version";

/// The shell command of a hook.
pub(super) fn command(program: &str, host: &str, event: &str) -> String {
    shell::line([program, "hook", host, event])
}

/// Whether a command is one of ours, of any version and path.
pub(super) fn is_own(command: &str, host: &str) -> bool {
    let mut words = command.rsplitn(4, ' ');
    let (Some(_), Some(own_host), Some("hook"), Some(program)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    let name = program.trim_matches('\'').rsplit('/').next().unwrap_or_default();
    own_host == host && name.starts_with(super::NAME)
}

/// One entry of an event.
pub(super) fn entry(file: &HookFile, trigger: &HookTrigger, program: &str) -> CstInputValue {
    let command = string(&command(program, file.host, trigger.name));
    let matcher = trigger.matcher.map(|matcher| ("matcher".to_owned(), string(matcher)));
    let limit =
        |timeout: Timeout| (timeout.member.to_owned(), CstInputValue::Number(timeout.value.to_owned()));
    let kind = ("type".to_owned(), string("command"));
    let members = match file.shape {
        HookShape::Grouped { timeout } => {
            let hook = vec![kind, ("command".to_owned(), command), limit(timeout)];
            let hooks = (HOOKS.to_owned(), CstInputValue::Array(vec![CstInputValue::Object(hook)]));
            matcher.into_iter().chain([hooks]).collect()
        }
        HookShape::Flat { says_type, command: member, timeout, .. } => {
            let kind = says_type.then_some(kind);
            kind.into_iter().chain(matcher).chain([(member.to_owned(), command), limit(timeout)]).collect()
        }
    };
    CstInputValue::Object(members)
}

pub(super) fn install(text: &str, file: &HookFile, program: &str) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    let mut is_changed = text.trim().is_empty();
    if let HookShape::Flat { version: HookFileVersion::One, .. } = file.shape
        && object.get(VERSION).is_none()
    {
        object.insert(0, VERSION, CstInputValue::Number("1".to_owned()));
        is_changed = true;
    }
    let hooks = match object_in(&object, HOOKS)? {
        Some(hooks) => hooks,
        None => object.object_value_or_set(HOOKS),
    };
    // Events of an earlier version are removed; those of this version are put where they belong.
    for property in hooks.properties() {
        let Some(name) = property.decoded_name() else { continue };
        if !file.triggers.iter().any(|trigger| trigger.name == name) {
            is_changed |= remove_from(&hooks, &name, file)?;
        }
    }
    for trigger in file.triggers {
        let wanted = entry(file, trigger, program);
        let own_hooks = match array_in(&hooks, trigger.name)? {
            Some(list) => own_entries(&list, file),
            None => Vec::new(),
        };
        if matches!(own_hooks.as_slice(), [only] if same(only, &wanted)) {
            continue;
        }
        remove_from(&hooks, trigger.name, file)?;
        let list = match array_in(&hooks, trigger.name)? {
            Some(list) => list,
            None => hooks.array_value_or_set(trigger.name),
        };
        list.append(wanted);
        is_changed = true;
    }
    Ok(if is_changed { ended(root.to_string()) } else { text.to_owned() })
}

/// The file without our hooks; `None` if it held nothing else.
pub(super) fn remove(text: &str, file: &HookFile) -> Result<Option<String>, String> {
    let (root, object) = parsed(text)?;
    let Some(hooks) = object_in(&object, HOOKS)? else { return Ok(Some(text.to_owned())) };
    let mut is_changed = false;
    for property in hooks.properties() {
        if let Some(name) = property.decoded_name() {
            is_changed |= remove_from(&hooks, &name, file)?;
        }
    }
    if !is_changed {
        return Ok(Some(text.to_owned()));
    }
    prune(&object, HOOKS);
    let is_empty =
        object.properties().iter().all(|property| property.decoded_name().as_deref() == Some(VERSION));
    Ok((!is_empty).then(|| root.to_string()))
}

/// Removes our hooks from an event, and the event if it is then empty. Returns whether anything was removed.
fn remove_from(hooks: &CstObject, event: &str, file: &HookFile) -> Result<bool, String> {
    let Some(list) = array_in(hooks, event)? else { return Ok(false) };
    let own_hooks = own_entries(&list, file);
    let is_changed = !own_hooks.is_empty();
    for entry in own_hooks {
        match inner_hooks(&entry, file.shape) {
            // Another program's hook is in the same group.
            Some(inner) if inner.elements().iter().any(|hook| !is_own_hook(hook, file)) => {
                inner.elements().into_iter().filter(|hook| is_own_hook(hook, file)).for_each(CstNode::remove);
            }
            Some(_) | None => entry.remove(),
        }
    }
    if is_changed {
        prune(hooks, event);
    }
    Ok(is_changed)
}

fn inner_hooks(entry: &CstNode, shape: HookShape) -> Option<CstArray> {
    match shape {
        HookShape::Grouped { .. } => entry.as_object()?.array_value(HOOKS),
        HookShape::Flat { .. } => None,
    }
}

fn own_entries(list: &CstArray, file: &HookFile) -> Vec<CstNode> {
    let is_own = |entry: &CstNode| match inner_hooks(entry, file.shape) {
        Some(inner) => inner.elements().iter().any(|hook| is_own_hook(hook, file)),
        None => is_own_hook(entry, file),
    };
    list.elements().into_iter().filter(is_own).collect()
}

fn is_own_hook(hook: &CstNode, file: &HookFile) -> bool {
    command_of(hook, file.shape).is_some_and(|command| is_own(&command, file.host))
}

fn command_of(hook: &CstNode, shape: HookShape) -> Option<String> {
    let member = match shape {
        HookShape::Grouped { .. } => "command",
        HookShape::Flat { command, .. } => command,
    };
    text_in(&hook.as_object()?, member)
}

/// Our hooks in a file: the event and the command of each.
pub(super) fn installed(text: &str, file: &HookFile) -> Result<Vec<(String, String)>, String> {
    let (_, object) = parsed(text)?;
    let Some(hooks) = object_in(&object, HOOKS)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for property in hooks.properties() {
        let (Some(event), Some(list)) = (property.decoded_name(), property.array_value()) else { continue };
        for entry in own_entries(&list, file) {
            let inner = inner_hooks(&entry, file.shape).map_or_else(|| vec![entry], |inner| inner.elements());
            let commands = inner.iter().filter_map(|hook| command_of(hook, file.shape));
            found.extend(
                commands.filter(|command| is_own(command, file.host)).map(|command| (event.clone(), command)),
            );
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_recognised_by_its_program_and_last_words() {
        for own in [
            command("/opt/work rail/workrail", "codex", "Stop"),
            "workrail hook codex Stop".to_owned(),
            "/a/workrail-1.2 hook codex PreToolUse".to_owned(),
        ] {
            assert!(is_own(&own, "codex"), "{own}");
            assert!(!is_own(&own, "cursor"), "{own}");
        }
        for other in ["make hook codex Stop", "workrail status", "hook codex Stop", ""] {
            assert!(!is_own(other, "codex"), "{other}");
        }
    }
}
