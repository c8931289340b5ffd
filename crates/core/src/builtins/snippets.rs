//! Snippets that prompts may include by id, each a short statement of how work is done here.

#[derive(Clone, Copy, Debug)]
pub struct Snippet {
    pub id: &'static str,
    pub text: &'static str,
}

/// Limit for all snippets of one step together: beyond this the instruction gets lost.
pub(crate) const STEP_REF_BYTES_MAX: usize = 4096;

/// Sorted by id.
pub fn snippets() -> &'static [Snippet] {
    &ALL
}

pub fn snippet(id: &str) -> Option<&'static Snippet> {
    ALL.iter().find(|snippet| snippet.id == id)
}

static ALL: [Snippet; 10] = [
    Snippet {
        id: "wr.refs.adversarial_challenge_rules",
        text: "Challenge the leading answer before you accept it. Name the strongest case against it, look for \
               evidence that would refute it, and say what you would expect to see if it were wrong. A challenge \
               that finds nothing is recorded with what was tried; a challenge that finds something changes the \
               answer or its confidence, never only the wording.",
    },
    Snippet {
        id: "wr.refs.append_only_truth",
        text: "What was recorded stays recorded. Do not rewrite earlier notes or results: correct them by adding \
               what is now known and which earlier statement it replaces.",
    },
    Snippet {
        id: "wr.refs.jcs_hashing",
        text: "Content is identified by the SHA-256 of its RFC 8785 canonical JSON, written `sha256:` and 64 hex \
               digits. Equal digests mean equal content on every machine; compare digests, not file dates.",
    },
    Snippet {
        id: "wr.refs.memory_query",
        text: "If a memory tool is available, query it once at the beginning for decisions and constraints about \
               the area you are about to touch. Treat what it returns as a lead to verify, not as fact.",
    },
    Snippet {
        id: "wr.refs.memory_store",
        text: "If a memory tool is available, store what the next session will need and cannot read from the code: \
               decisions with their reasons, constraints found, dead ends. One fact per entry, without secrets.",
    },
    Snippet {
        id: "wr.refs.memory_usage",
        text: "Memory tools are optional help. Query before you explore, verify what comes back against the \
               repository, and store lasting decisions when the work is done. The notes of each step remain the \
               record that counts; nothing may depend on memory alone.",
    },
    Snippet {
        id: "wr.refs.notes_first_durability",
        text: "The notes of this step are what survives the chat. Write decisions, evidence, open questions and \
               results into them before you continue; keep other files as working material. Anyone who resumes \
               from the notes alone must be able to continue.",
    },
    Snippet {
        id: "wr.refs.parallelize_cognition_serialize_synthesis",
        text: "Have independent questions answered in parallel where subagents are available, otherwise one after the other. Bring the \
               results together in one place, yourself: compare them against each other and against the evidence, \
               settle contradictions explicitly, and own the conclusion. Subagents gather; they do not decide.",
    },
    Snippet {
        id: "wr.refs.synthesis_under_disagreement",
        text: "Where sources or reviewers disagree, do not average and do not count votes. State the disagreement \
               precisely, find the observation that would settle it, make that observation if you can, and \
               otherwise record the minority view with the reason it was not followed.",
    },
    Snippet {
        id: "wr.refs.v2_definition",
        text: "WorkRail hands you one step at a time. Do what the pending step says, report it, and ask for the next \
               one; what comes next is unknown until then. Tokens are opaque and are sent back unchanged.",
    },
];
