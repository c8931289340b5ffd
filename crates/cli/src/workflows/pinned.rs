//! `workrail workflow inspect --run`: the version a run is pinned to, its file, and whether the two still agree.

use serde_json::json;
use workrail_core::author::hash_inputs;
use workrail_core::discover::plan;
use workrail_engine::versions::{CurrentForm, PinnedRun};

use super::catalog::plan_line;
use super::unusable_form;
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

pub(super) fn inspect(run: &str, format: Format) -> Result<(), Failure> {
    let pinned = wiring::read_only_default()?.pinned_run(run)?;
    match format {
        Format::Json => document(&pinned)?,
        Format::Text => show(&pinned),
    }
    Ok(())
}

fn document(pinned: &PinnedRun) -> Result<(), Failure> {
    let inputs = hash_inputs(&pinned.compiled).map_err(unusable_form)?;
    let file = pinned.now.as_ref().map(|now| {
        json!({
            "file": now.reference, "source": now.source, "sourceDigest": now.source_digest, "hash": now.hash,
            "isSame": now.hash == pinned.hash,
        })
    });
    output::json(&json!({
        "run": pinned.label, "workflowId": pinned.workflow_id, "hash": pinned.hash, "pinned": &*pinned.compiled,
        "inputs": inputs, "now": file,
    }));
    Ok(())
}

fn show(pinned: &PinnedRun) {
    let workflow = &pinned.compiled;
    output::toned(
        Tone::Heading,
        &format!("{}  {} {}", workflow.workflow_id, workflow.name, workflow.version),
    );
    output::line(&workflow.description);
    output::line("");
    output::line(&format!("  {:<10} {}", "run", pinned.label));
    output::line(&format!("  {:<10} {}", "pinned to", pinned.hash));
    match &pinned.now {
        None => output::toned(
            Tone::Quiet,
            "  file       no usable file has this id now; the run does not need one",
        ),
        Some(now) => file(now, pinned),
    }
    output::line("");
    output::toned(Tone::Heading, "Steps");
    plan(workflow).iter().for_each(|entry| output::line(&format!("  {}", plan_line(entry))));
    output::line("");
    let label = &pinned.label;
    output::line(&format!("Print it: workrail workflow compile {label} --emit json|prompts|source|inputs"));
}

fn file(now: &CurrentForm, pinned: &PinnedRun) {
    output::line(&format!("  {:<10} {}", "file", now.reference));
    if now.hash == pinned.hash {
        output::toned(Tone::Good, "             still compiles to this hash");
        return;
    }
    output::toned(Tone::Warning, &format!("             now compiles to {}", now.hash));
    output::line(&format!("             workrail workflow diff {} {}", pinned.label, pinned.workflow_id));
}
