//! The hooks in clients' files: each is run as its host would, and what would prevent that is reported.
//!
//! A repository that was only cloned must not run anything, so of a project's file only what `install` writes is run
//! (G22, G112).

use workrail_host::clients::{
    Bases, Client, HookTrial, InstalledHook, NAME, SetupScope, hooks_off, installed_hooks, try_hook,
    untrusted_by_codex,
};

use super::DoctorFindings;
use crate::install;

const HOOKS: &str = "hooks";

pub(super) fn check(findings: &mut DoctorFindings) {
    let Ok(bases) = install::bases() else { return };
    let (hooks, unreadable) = installed_hooks(&bases);
    for error in unreadable {
        findings.warning(HOOKS, error.to_string(), "fix the file by hand");
    }
    // One file after another, in table order.
    let mut rest = hooks.as_slice();
    while let Some(first) = rest.first() {
        let (here, others) = rest.split_at(rest.iter().take_while(|hook| hook.path == first.path).count());
        file(findings, here, &bases);
        rest = others;
    }
    let mut clients: Vec<Client> = hooks.iter().map(|hook| hook.client).collect();
    clients.dedup();
    for client in clients {
        switched_off(findings, client, &bases);
    }
    codex(findings, &hooks, &bases);
}

fn repair(hook: &InstalledHook) -> String {
    let scope = hook.scope.as_str();
    format!("workrail install --client {} --scope {scope} --only hooks", hook.client.as_str())
}

fn file(findings: &mut DoctorFindings, hooks: &[InstalledHook], bases: &Bases) {
    let mut slowest = 0;
    let mut is_well = true;
    for hook in hooks {
        if !may_run(hook) {
            is_well = false;
            let (client, event, path) = (hook.client.title(), &hook.event, &hook.path);
            let what = format!(
                "{client}: the hook for {event} was not run: `install` writes no such command into a project's file \
                 ({path})"
            );
            findings.warning(HOOKS, what, repair(hook));
            continue;
        }
        match try_hook(hook, &bases.project) {
            HookTrial::Runs { after_ms } => slowest = slowest.max(after_ms),
            HookTrial::Fails { why } => {
                is_well = false;
                let (client, event, path) = (hook.client.title(), &hook.event, &hook.path);
                let what = format!("{client}: the hook for {event} does not work: {why} ({path})");
                findings.problem(HOOKS, what, repair(hook));
            }
        }
    }
    if let Some(first) = hooks.first().filter(|_| is_well) {
        let client = first.client.title();
        let (count, path) = (hooks.len(), &first.path);
        findings.good(
            HOOKS,
            format!("{client}: all hooks answer ({count}), the slowest in {slowest} ms ({path})"),
        );
    }
}

/// Everyone with push access can edit a project's file, and a shell runs whatever it says.
fn may_run(hook: &InstalledHook) -> bool {
    let is_plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric());
    let words: Vec<&str> = hook.command.split(' ').collect();
    match (hook.scope, words.as_slice()) {
        (SetupScope::User, _) => true,
        (SetupScope::Project, [program, "hook", host, event]) => {
            *program == NAME && *host == hook.host && is_plain(event)
        }
        (SetupScope::Project, _) => false,
    }
}

fn switched_off(findings: &mut DoctorFindings, client: Client, bases: &Bases) {
    for off in hooks_off(client, bases) {
        let (client, path, setting) = (off.client.title(), off.path, off.setting);
        findings.problem(
            HOOKS,
            format!("{client} runs no hooks: {path} says `{setting}`"),
            format!("remove that setting from {path}"),
        );
    }
}

/// Codex silently skips hooks that the user has not trusted.
fn codex(findings: &mut DoctorFindings, hooks: &[InstalledHook], bases: &Bases) {
    let codex_hooks: Vec<&InstalledHook> = hooks.iter().filter(|hook| hook.client == Client::Codex).collect();
    if codex_hooks.is_empty() {
        return;
    }
    let Some(skipped) = untrusted_by_codex(&bases.project) else {
        return findings.good(HOOKS, "Codex: unknown whether it trusts the hooks; it could not be queried");
    };
    for scope in SetupScope::ALL {
        let untrusted: Vec<&str> = codex_hooks
            .iter()
            .filter(|hook| hook.scope == *scope && skipped.contains(&hook.command))
            .map(|hook| hook.event.as_str())
            .collect();
        if !untrusted.is_empty() {
            let what = format!(
                "Codex skips hooks that are not trusted: {} ({} scope)",
                untrusted.join(", "),
                scope.as_str()
            );
            findings.problem(HOOKS, what, "type /hooks in Codex, then review and trust them");
        }
    }
}
