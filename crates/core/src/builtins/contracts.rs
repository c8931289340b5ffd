//! Contract packs: the artifacts that steps may require, each with a schema and an example that passes (G40).

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use workrail_model::capability::Capability;

use super::{
    ASSESSMENT_KIND, CAPABILITY_OBSERVATION_KIND, CODING_HANDOFF_KIND, LOOP_CONTROL_KIND, VERIFICATION_KIND,
    WORKFLOW_DIVERGENCE_KIND,
};

#[derive(Clone, Debug)]
pub struct Contract {
    pub id: &'static str,
    pub artifact_kind: &'static str,
    pub purpose: &'static str,
    pub schema: Value,
    pub example: Value,
}

/// Sorted by id.
pub fn contracts() -> &'static [Contract] {
    static ALL: LazyLock<Vec<Contract>> = LazyLock::new(|| {
        let mut all = vec![
            assessment(),
            capability_observation(),
            changed_files(),
            coding_handoff(),
            coordinator_signal(),
            differentiation_handoff(),
            discovery_handoff(),
            gate_verdict(),
            loop_control(),
            review_findings(),
            review_verdict(),
            shaping_handoff(),
            verification_report(),
            workflow_divergence(),
        ];
        all.sort_by_key(|contract| contract.id);
        all
    });
    &ALL
}

pub fn contract(id: &str) -> Option<&'static Contract> {
    contracts().iter().find(|contract| contract.id == id)
}

/// A closed object; fields whose name ends in `?` are optional.
fn object(fields: Value) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Value::Object(members) = fields {
        for (name, schema) in members {
            let bare = name.trim_end_matches('?').to_owned();
            if bare == name {
                required.push(Value::String(bare.clone()));
            }
            properties.insert(bare, schema);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn text(min: u32, max: u32) -> Value {
    json!({ "type": "string", "minLength": min, "maxLength": max })
}

fn some_text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn list(item: Value, max: u32) -> Value {
    json!({ "type": "array", "items": item, "maxItems": max })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

fn level() -> Value {
    one_of(&["high", "medium", "low"])
}

fn kind(kind: &str) -> Value {
    json!({ "const": kind })
}

fn assessment() -> Contract {
    Contract {
        id: "wr.contracts.assessment",
        artifact_kind: ASSESSMENT_KIND,
        purpose: "A judgement on named dimensions, each at one of its declared levels.",
        schema: object(json!({
            "kind": kind(ASSESSMENT_KIND),
            "assessmentId?": text(1, 64),
            "dimensions": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": { "anyOf": [
                    some_text(),
                    object(json!({ "level": some_text(), "rationale?": text(1, 512) })),
                ] },
            },
            "summary?": text(0, 1024),
        })),
        example: json!({
            "kind": "wr.assessment",
            "dimensions": { "confidence": { "level": "high", "rationale": "Two tests reproduce the cause." } },
        }),
    }
}

fn capability_observation() -> Contract {
    Contract {
        id: "wr.contracts.capability_observation",
        artifact_kind: CAPABILITY_OBSERVATION_KIND,
        purpose: "Whether the agent has an optional capability, found out by trying.",
        schema: object(json!({
            "kind": kind(CAPABILITY_OBSERVATION_KIND),
            "capability": one_of(&Capability::ALL.map(Capability::as_str)),
            "status": one_of(&["available", "unavailable"]),
            "attempt?": object(json!({
                "result": one_of(&["success", "failure"]),
                "failureCode?": one_of(&["tool_missing", "tool_error", "policy_blocked", "unknown"]),
            })),
            "summary?": text(0, 512),
        })),
        example: json!({
            "kind": "wr.capability_observation",
            "capability": "web_browsing",
            "status": "available",
            "attempt": { "result": "success" },
        }),
    }
}

fn changed_files() -> Contract {
    Contract {
        id: "wr.contracts.changed_files",
        artifact_kind: "wr.changed_files",
        purpose: "The files of a change, one row each, with what changed and how risky it is.",
        schema: object(json!({
            "kind": kind("wr.changed_files"),
            "changedFiles": list(object(json!({
                "path": text(1, 300),
                "summary": text(1, 300),
                "risk": one_of(&["L", "M", "H"]),
            })), 500),
        })),
        example: json!({
            "kind": "wr.changed_files",
            "changedFiles": [
                { "path": "src/store/append.rs", "summary": "Syncs the directory after a rename", "risk": "H" },
                { "path": "src/store/layout.rs", "summary": "Names the new file", "risk": "L" },
            ],
        }),
    }
}

fn coding_handoff() -> Contract {
    Contract {
        id: "wr.contracts.coding_handoff",
        artifact_kind: CODING_HANDOFF_KIND,
        purpose: "What an implementation leaves behind for the person or agent that reviews or continues it.",
        schema: object(json!({
            "kind": kind(CODING_HANDOFF_KIND),
            "version": { "const": 1 },
            "branchName?": some_text(),
            "keyDecisions": list(text(1, 200), 8),
            "knownLimitations": list(text(1, 200), 6),
            "testsAdded": list(text(1, 200), 10),
            "filesChanged": list(text(1, 300), 20),
            "correctedAssumptions?": list(object(json!({ "assumed": text(1, 200), "actual": text(1, 200) })), 6),
        })),
        example: json!({
            "kind": "wr.coding_handoff",
            "version": 1,
            "branchName": "feature/retry-budget",
            "keyDecisions": ["The retry budget is shared by all workers"],
            "knownLimitations": ["The budget is not kept across restarts"],
            "testsAdded": ["retry_budget_is_shared"],
            "filesChanged": ["src/retry.rs"],
        }),
    }
}

fn coordinator_signal() -> Contract {
    Contract {
        id: "wr.contracts.coordinator_signal",
        artifact_kind: "wr.coordinator_signal",
        purpose: "Something a coordinating agent should know while the run continues.",
        schema: object(json!({
            "kind": kind("wr.coordinator_signal"),
            "signalKind": one_of(&["progress", "finding", "data_needed", "approval_needed", "blocked"]),
            "payload": { "type": "object" },
            "sessionId?": { "type": "string" },
        })),
        example: json!({
            "kind": "wr.coordinator_signal",
            "signalKind": "finding",
            "payload": { "summary": "Two callers ignore the error" },
        }),
    }
}

fn differentiation_handoff() -> Contract {
    let instant = json!({ "type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$" });
    let uuid = json!({
        "type": "string",
        "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    });
    let powers = [
        "Counter-Positioning",
        "Switching Costs",
        "Network Economies",
        "Scale Economies",
        "Cornered Resource",
        "Process Power",
        "Branding",
        "None_Imitable",
    ];
    Contract {
        id: "wr.contracts.differentiation_handoff",
        artifact_kind: "wr.differentiation_handoff",
        purpose: "A chosen differentiator, ready to be shaped, with the evidence behind it.",
        schema: object(json!({
            "kind": kind("wr.differentiation_handoff"),
            "version": { "const": 1 },
            "schemaVersion": { "const": "1.0.0" },
            "generatedAt": instant,
            "evidenceFreshness": object(json!({ "oldestCapturedAt": instant, "newestCapturedAt": instant })),
            "validationChecklist": list(json!({ "type": "string" }), 10),
            "shapingHandoff": object(json!({
                "rawIdea": some_text(),
                "problem": some_text(),
                "baseline": some_text(),
                "appetiteHint": one_of(&["small_batch", "big_batch"]),
                "noGosHints": { "type": "array", "items": { "type": "string" } },
                "constraints": object(json!({
                    "teamSize": { "type": "integer", "minimum": 1 },
                    "technicalCapabilities": { "anyOf": [
                        some_text(),
                        { "type": "array", "minItems": 1, "items": { "type": "string" } },
                    ] },
                    "exclusions?": { "type": "array", "items": { "type": "string" } },
                })),
                "evidenceTopK": list(uuid, 10),
                "defensibilityClaim": object(json!({ "power": one_of(&powers), "cannibalization": some_text() })),
            })),
        })),
        example: differentiation_example(),
    }
}

fn differentiation_example() -> Value {
    json!({
        "kind": "wr.differentiation_handoff",
        "version": 1,
        "schemaVersion": "1.0.0",
        "generatedAt": "2026-01-31T09:00:00Z",
        "evidenceFreshness": {
            "oldestCapturedAt": "2026-01-02T09:00:00Z",
            "newestCapturedAt": "2026-01-30T09:00:00Z",
        },
        "validationChecklist": ["A second user restores a run without help"],
        "shapingHandoff": {
            "rawIdea": "Runs that survive a lost chat",
            "problem": "A reviewer loses an hour when the chat is cut",
            "baseline": "They copy notes by hand",
            "appetiteHint": "small_batch",
            "noGosHints": ["No hosted service"],
            "constraints": { "teamSize": 2, "technicalCapabilities": ["Rust"], "exclusions": [] },
            "evidenceTopK": ["5f0c1a52-6a3d-4a43-9f4e-0d8a3f1b2c4d"],
            "defensibilityClaim": { "power": "Process Power", "cannibalization": "Their hosted plan" },
        },
    })
}

fn discovery_handoff() -> Contract {
    Contract {
        id: "wr.contracts.discovery_handoff",
        artifact_kind: "wr.discovery_handoff",
        purpose: "The direction a discovery chose, and what the next phase must keep to.",
        schema: object(json!({
            "kind": kind("wr.discovery_handoff"),
            "version": { "const": 1 },
            "selectedDirection": some_text(),
            "designDocPath": { "type": "string" },
            "confidenceBand": level(),
            "keyInvariants": list(text(1, 200), 12),
            "rejectedDirections?": list(object(json!({ "direction": text(1, 200), "reason": text(1, 300) })), 5),
            "implementationConstraints?": list(text(1, 200), 8),
            "keyCodebaseLocations?": list(object(json!({ "path": text(1, 300), "relevance": text(1, 150) })), 10),
            "selectionTier?": one_of(&[
                "strong_recommendation", "provisional_recommendation", "insufficient_signal",
            ]),
        })),
        example: json!({
            "kind": "wr.discovery_handoff",
            "version": 1,
            "selectedDirection": "Keep the log append-only and derive the index",
            "designDocPath": "docs/design/index.md",
            "confidenceBand": "medium",
            "keyInvariants": ["A reader never waits for a writer"],
        }),
    }
}

fn gate_verdict() -> Contract {
    Contract {
        id: "wr.contracts.gate_verdict",
        artifact_kind: "wr.gate_verdict",
        purpose: "A reviewer's verdict on a gate, with the reason.",
        schema: object(json!({
            "kind": kind("wr.gate_verdict"),
            "version": { "const": 1 },
            "verdict": one_of(&["approved", "rejected", "uncertain"]),
            "confidence": level(),
            "rationale": { "type": "string", "minLength": 20 },
        })),
        example: json!({
            "kind": "wr.gate_verdict",
            "version": 1,
            "verdict": "approved",
            "confidence": "high",
            "rationale": "All three acceptance checks pass and the diff is small.",
        }),
    }
}

fn loop_control() -> Contract {
    Contract {
        id: "wr.contracts.loop_control",
        artifact_kind: LOOP_CONTROL_KIND,
        purpose: "Whether the loop continues or ends.",
        schema: object(json!({
            "kind": kind(LOOP_CONTROL_KIND),
            "decision": one_of(&["continue", "stop"]),
            "loopId?": { "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" },
            "summary?": text(0, 1024),
            "metadata?": object(json!({
                "reason?": text(0, 1024),
                "issuesFound?": { "type": "integer", "minimum": 0 },
                "iterationIndex?": { "type": "integer", "minimum": 0 },
                "confidence?": { "type": "integer", "minimum": 0, "maximum": 100 },
            })),
        })),
        example: json!({ "kind": "wr.loop_control", "decision": "stop", "summary": "No finding is open." }),
    }
}

fn review_findings() -> Contract {
    let location = object(json!({ "file": text(1, 300), "line?": { "type": "integer", "minimum": 1 } }));
    Contract {
        id: "wr.contracts.review_findings",
        artifact_kind: "wr.review_findings",
        purpose: "Findings of a review, and comments ready to be posted.",
        schema: object(json!({
            "kind": kind("wr.review_findings"),
            "findings": list(object(json!({
                "severity": one_of(&["critical", "major", "minor", "nit"]),
                "location": location,
                "title": text(1, 200),
                "rationale": text(1, 1000),
                "suggestion?": text(1, 1000),
            })), 200),
            "mrComments?": list(object(json!({
                "location": location,
                "title": text(1, 200),
                "body": text(1, 4000),
            })), 200),
        })),
        example: json!({
            "kind": "wr.review_findings",
            "findings": [{
                "severity": "major",
                "location": { "file": "src/store/append.rs", "line": 79 },
                "title": "The directory is not synced after the rename",
                "rationale": "A crash right after the reply loses the file's name.",
                "suggestion": "Sync the parent directory before answering.",
            }],
        }),
    }
}

fn review_verdict() -> Contract {
    Contract {
        id: "wr.contracts.review_verdict",
        artifact_kind: "wr.review_verdict",
        purpose: "The outcome of a review in one word, with its findings.",
        schema: object(json!({
            "kind": kind("wr.review_verdict"),
            "verdict": one_of(&["clean", "minor", "blocking"]),
            "confidence": level(),
            // Findings may have extra fields: reviewers keep their own columns.
            "findings": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "severity": one_of(&["critical", "major", "minor", "nit"]),
                    "summary": some_text(),
                    "findingCategory": one_of(&[
                        "correctness", "security", "architecture", "ux", "performance", "testing", "style",
                    ]),
                },
                "required": ["severity", "summary"],
            } },
            "summary": some_text(),
        })),
        example: json!({
            "kind": "wr.review_verdict",
            "verdict": "minor",
            "confidence": "high",
            "findings": [{ "severity": "minor", "summary": "An error is swallowed", "findingCategory": "correctness" }],
            "summary": "One small fix before merging.",
        }),
    }
}

fn shaping_handoff() -> Contract {
    Contract {
        id: "wr.contracts.shaping_handoff",
        artifact_kind: "wr.shaping_handoff",
        purpose: "A shaped pitch: what to build, within which bounds.",
        schema: object(json!({
            "kind": kind("wr.shaping_handoff"),
            "version": { "const": 1 },
            "pitchPath": some_text(),
            "selectedShape": text(1, 200),
            "appetite": text(1, 100),
            "keyConstraints": list(text(1, 200), 8),
            "rabbitHoles": list(text(1, 200), 6),
            "outOfScope": list(text(1, 200), 6),
            "validationChecklist": list(text(1, 200), 10),
        })),
        example: json!({
            "kind": "wr.shaping_handoff",
            "version": 1,
            "pitchPath": "docs/pitches/resume.md",
            "selectedShape": "A resume panel in the console",
            "appetite": "s",
            "keyConstraints": ["No new service"],
            "rabbitHoles": ["Ranking by clock time"],
            "outOfScope": ["Sharing between teams"],
            "validationChecklist": ["A cut chat is resumed in one call"],
        }),
    }
}

fn verification_report() -> Contract {
    Contract {
        id: "wr.contracts.verification_report",
        artifact_kind: VERIFICATION_KIND,
        purpose: "What was verified, how, and with which result.",
        schema: object(json!({
            "kind": kind(VERIFICATION_KIND),
            "result": one_of(&["passed", "failed", "partial"]),
            "checks": { "type": "array", "minItems": 1, "maxItems": 100, "items": object(json!({
                "name": text(1, 200),
                "result": one_of(&["passed", "failed", "skipped"]),
                "command?": text(1, 500),
                "evidence?": text(1, 1000),
            })) },
            "summary?": text(0, 1024),
        })),
        example: json!({
            "kind": "wr.verification_report",
            "result": "passed",
            "checks": [{ "name": "unit tests", "result": "passed", "command": "cargo test", "evidence": "212 passed" }],
        }),
    }
}

fn workflow_divergence() -> Contract {
    Contract {
        id: "wr.contracts.workflow_divergence",
        artifact_kind: WORKFLOW_DIVERGENCE_KIND,
        purpose: "The agent deviated from the instructions on purpose, with the reason.",
        schema: object(json!({
            "kind": kind(WORKFLOW_DIVERGENCE_KIND),
            "reason": one_of(&[
                "missing_user_context", "capability_unavailable", "efficiency_skip", "safety_stop",
                "policy_constraint",
            ]),
            "summary": text(1, 512),
            "relatedStepId?": text(1, 256),
        })),
        example: json!({
            "kind": "wr.workflow_divergence",
            "reason": "efficiency_skip",
            "summary": "The benchmark was skipped: the change touches only documentation.",
        }),
    }
}
