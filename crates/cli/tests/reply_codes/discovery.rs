//! An inspected workflow for every code of a warning about a workflow.

use serde_json::{Value, json};
use workrail_model::discovery::DiscoveryWarningCode;

use crate::scene::{Answer, Scene};

pub(crate) fn case(code: DiscoveryWarningCode) -> Answer {
    match code {
        DiscoveryWarningCode::AliasUsed => inspected("bug-investigation", json!({})),
        DiscoveryWarningCode::CompilerWarning => {
            inspected("team.flow", json!({ "features": ["wr.features.capabilities"] }))
        }
        DiscoveryWarningCode::LegacyWorkflowId => inspected("old-name", json!({ "id": "old-name" })),
        DiscoveryWarningCode::ReferenceUnresolved => inspected(
            "team.flow",
            json!({ "references": [{ "id": "guide", "title": "The guide", "source": "docs/guide.md",
                                     "purpose": "How it is done.", "authoritative": true }] }),
        ),
        DiscoveryWarningCode::StaleWorkflow => {
            inspected("team.flow", json!({ "validatedAgainstSpecVersion": 1 }))
        }
    }
}

fn inspected(id: &str, members: Value) -> Answer {
    let mut scene = Scene::new();
    scene.workflow(members);
    let reply = scene.client.call("inspect_workflow", json!({ "workflowId": id, "mode": "metadata" }));
    scene.answer(reply)
}
