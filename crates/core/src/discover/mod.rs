//! What can be run: which file owns an id, in which order workflows are shown, and in which words (G90).

mod alias;
mod copy;
mod inspect;
mod list;
mod outline;
mod provenance;
mod select;

pub use alias::older_names;
pub use copy::with_id;
pub use inspect::{Inspected, inspect};
pub use list::{Filter, WorkflowSummary, list, matching};
pub use outline::{condition_text, plan};
pub(crate) use outline::{confirmation_text, repeats_text};
pub use provenance::{LineOrigin, PromptLine, prompt_lines};
pub use select::{Choice, IdClaim, OwnerSelection, select, workflow_kind};

use workrail_model::compiled::{CompiledWorkflow, MetricsProfile};
use workrail_model::discovery::{Precedence, Staleness};

/// Ends a line that was cut to fit into a list.
const CUT: &str = " …";

/// What a workflow is for, as tags for filtering. Files have no tags of their own: their authors already declare the
/// metrics profile.
pub(crate) fn tags(workflow: &CompiledWorkflow) -> Vec<String> {
    let tag = match workflow.metrics_profile {
        MetricsProfile::Coding => "coding",
        MetricsProfile::Review => "review",
        MetricsProfile::Research => "research",
        MetricsProfile::Design => "design",
        MetricsProfile::Ticket => "ticket",
        MetricsProfile::None => return Vec::new(),
    };
    vec![tag.to_owned()]
}

/// Whether the author's stamp matches the current rules; bundled files need none.
fn staleness(workflow: &CompiledWorkflow, source: Precedence) -> Option<Staleness> {
    (source != Precedence::Bundled).then(|| Staleness::of(workflow.validated_against_spec_version))
}

/// Authored text as one line of at most `max` bytes: control characters would break the list.
fn one_line(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if line.len() <= max {
        return line;
    }
    let keep = line.floor_char_boundary(max.saturating_sub(CUT.len()));
    format!("{}{CUT}", line[..keep].trim_end())
}

/// `1 workflow`, `2 workflows`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Lines up to a budget, then how many are missing and where to find them.
fn within(lines: &[String], max: usize, rest: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for (shown, line) in lines.iter().enumerate() {
        if text.len() + line.len() + 1 > max {
            text.push_str(&rest(lines.len() - shown));
            text.push('\n');
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
