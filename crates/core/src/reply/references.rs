//! A workflow's references in the words of a reply: all are named, with as much about each as fits.

use workrail_model::reply::{ReferenceInfo, without_markers};

use super::ReplyMoment;

const REFERENCES_BYTES_MAX: usize = 1200;

pub(super) fn text(moment: ReplyMoment<'_>, references: &[ReferenceInfo]) -> Option<String> {
    if references.is_empty() {
        return None;
    }
    let full = match moment {
        ReplyMoment::Started => true,
        ReplyMoment::Advanced
        | ReplyMoment::Blocked { .. }
        | ReplyMoment::Rehydrated
        | ReplyMoment::Checkpointed => false,
    };
    // Those that can be read come first.
    let (found, missing): (Vec<_>, Vec<_>) = references.iter().partition(|reference| reference.resolved);
    let ordered: Vec<&ReferenceInfo> = found.into_iter().chain(missing).collect();
    let listed = |line: fn(&ReferenceInfo) -> String| -> String {
        let lines = ordered.iter().map(|reference| format!("\n- {}", without_markers(&line(reference))));
        format!("References of this workflow:{}", lines.collect::<String>())
    };
    // Every reference is named; the detail depends on the room.
    let forms: &[fn(&ReferenceInfo) -> String] =
        if full { &[purpose_of, location_of, path_of, id_of] } else { &[location_of, path_of, id_of] };
    let fitting = forms.iter().map(|form| listed(*form)).find(|text| text.len() <= REFERENCES_BYTES_MAX);
    Some(fitting.unwrap_or_else(|| {
        let text = listed(id_of);
        let shown =
            text[..text.floor_char_boundary(REFERENCES_BYTES_MAX)].matches("\n- ").count().saturating_sub(1);
        let lines: Vec<&str> = text.split("\n- ").take(shown + 1).collect();
        let more = references.len() - shown;
        format!("{}\n- and {more} more (inspect_workflow lists all)", lines.join("\n- "))
    }))
}

fn found(reference: &ReferenceInfo) -> &'static str {
    if reference.resolved { "" } else { " [unresolved]" }
}

fn purpose_of(reference: &ReferenceInfo) -> String {
    let weight = if reference.authoritative { "authoritative" } else { "for orientation" };
    format!("{}: {} ({weight})", location_of(reference), reference.purpose)
}

fn location_of(reference: &ReferenceInfo) -> String {
    format!("{} ({}){}", reference.title, reference.path, found(reference))
}

fn path_of(reference: &ReferenceInfo) -> String {
    format!("{}{}", reference.path, found(reference))
}

fn id_of(reference: &ReferenceInfo) -> String {
    format!("{}{}", reference.id, found(reference))
}
