//! Features: guidance that a workflow turns on for all of its steps with prompt blocks.

use std::collections::BTreeMap;

use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub struct Feature {
    pub id: &'static str,
    pub purpose: &'static str,
    pub settings: &'static [FeatureSetting],
    pub constraints: &'static [&'static str],
    pub procedure: &'static [&'static str],
    pub verify: &'static [&'static str],
    /// Snippets that are added to the constraints.
    pub refs: &'static [&'static str],
}

/// An integer that the feature's texts refer to as `{setting}`.
#[derive(Clone, Copy, Debug)]
pub struct FeatureSetting {
    pub name: &'static str,
    pub min: u64,
    pub max: u64,
    pub default: u64,
    pub purpose: &'static str,
}

/// Sorted by id, which is also the order in which they apply.
pub fn features() -> &'static [Feature] {
    &ALL
}

pub(crate) fn feature(id: &str) -> Option<&'static Feature> {
    ALL.iter().find(|feature| feature.id == id)
}

/// Fills the settings into one of the feature's texts.
pub(crate) fn configured(text: &str, config: &BTreeMap<String, Value>) -> String {
    config
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value.to_string()))
}

static ALL: [Feature; 6] = [
    Feature {
        id: "wr.features.capabilities",
        purpose: "Treats tools beyond files and shell as optional: try, report, degrade openly.",
        settings: &[],
        constraints: &[
            "Take no optional tool for granted: subagents, web access and similar abilities may be missing.",
            "A missing ability changes how the work is done, never whether its result is honest.",
            "Judgement stays with you, whatever tools do the legwork.",
        ],
        procedure: &[
            "Before you rely on an optional ability, try it once on something small.",
            "If it fails, take the plain route and continue.",
            "Report what you found as a `wr.capability_observation` artifact.",
        ],
        verify: &[
            "No statement rests on a tool that was not actually used.",
            "Every ability that was missing is named in the notes, with what was done instead.",
            "Results of other agents were checked before they were used.",
        ],
        refs: &[],
    },
    Feature {
        id: "wr.features.durable_recap_guidance",
        purpose: "Asks for notes that another session can resume from.",
        settings: &[FeatureSetting {
            name: "maxLines",
            min: 5,
            max: 60,
            default: 30,
            purpose: "Maximum number of lines in a step's notes.",
        }],
        constraints: &["Notes describe this step only, in at most {maxLines} lines."],
        procedure: &["Write the notes last: what was done, what was produced, what is open."],
        verify: &["The notes name files, commands and numbers rather than impressions."],
        refs: &["wr.refs.notes_first_durability"],
    },
    Feature {
        id: "wr.features.memory_context",
        purpose: "Reminds the agent to use memory tools, if it has any.",
        settings: &[],
        constraints: &[],
        procedure: &[],
        verify: &[],
        refs: &["wr.refs.memory_usage"],
    },
    Feature {
        id: "wr.features.mode_guidance",
        purpose: "Says how to act when no person answers.",
        settings: &[],
        constraints: &[
            "When a question needs the user: in a guided run, or where the call has a place for the user's answer, \
             ask in the chat and wait; otherwise assume, and say that you assumed.",
        ],
        procedure: &["Write each assumption into the notes, with what would change if it were wrong."],
        verify: &["No assumption is hidden in a result."],
        refs: &[],
    },
    Feature {
        id: "wr.features.output_contracts",
        purpose: "Reminds the agent that required artifacts are checked before the step ends.",
        settings: &[],
        constraints: &["Where a step asks for an artifact, send exactly the asked kind and fields."],
        procedure: &["Compare the artifact with the example in the step before you send it."],
        verify: &["The artifact says the same as the notes."],
        refs: &[],
    },
    Feature {
        id: "wr.features.subagent_guidance",
        purpose: "Says how to use subagents: they gather, the main agent decides.",
        settings: &[FeatureSetting {
            name: "maxParallel",
            min: 1,
            max: 16,
            default: 4,
            purpose: "Maximum number of subagents that work at the same time.",
        }],
        constraints: &[
            "Subagents execute well-defined tasks; plans, priorities and verdicts stay with you.",
            "Run at most {maxParallel} subagents at the same time, each with its own question.",
        ],
        procedure: &[
            "Give every subagent the facts it needs, the question, and the form of the answer.",
            "Read all answers before you decide, and settle contradictions yourself.",
        ],
        verify: &[
            "No subagent's claim went into the result unread.",
            "What subagents disagreed on is settled or recorded.",
        ],
        refs: &["wr.refs.parallelize_cognition_serialize_synthesis"],
    },
];
