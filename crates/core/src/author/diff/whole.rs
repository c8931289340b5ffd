//! What differs in a workflow as a whole.

use workrail_model::compiled::CompiledWorkflow;

use super::{Changes, Presence, WorkflowChange, quoted};

pub(super) fn changes(a: &CompiledWorkflow, b: &CompiledWorkflow) -> Vec<WorkflowChange> {
    let CompiledWorkflow {
        schema_version,
        render_version,
        workflow_id,
        name,
        description,
        version,
        about,
        examples,
        preconditions,
        clarification_prompts,
        agent_role,
        meta_guidance,
        model_tier,
        metrics_profile,
        validated_against_spec_version,
        recommended,
        capabilities,
        features,
        contracts,
        refs,
        references,
        assessments,
        functions,
        bindings,
        // Compared as text where they are used: unnamed conditions have numbers as ids.
        conditions: _,
        // Compared part by part, in the order of the plan.
        loops: _,
        plan: _,
        steps: _,
        compiled_warnings,
        index: _,
    } = b;
    let mut changes = Changes::new();
    changes.of("workflowId", &a.workflow_id, workflow_id, || {
        format!("the id is now `{workflow_id}` (was: `{}`)", a.workflow_id)
    });
    changes
        .of("name", &a.name, name, || format!("the name is now {} (was: {})", quoted(name), quoted(&a.name)));
    changes
        .of("version", &a.version, version, || format!("the version is now {version} (was: {})", a.version));
    changes.changed("description", (&a.description, description), "the description");
    changes.changed("about", (&a.about, about), "the longer description (`about`)");
    changes.changed("examples", (&a.examples, examples), "the list of examples");
    changes.changed("preconditions", (&a.preconditions, preconditions), "the list of preconditions");
    changes.changed(
        "clarificationPrompts",
        (&a.clarification_prompts, clarification_prompts),
        "the questions to the user",
    );
    changes.changed("agentRole", (&a.agent_role, agent_role), "the role of the agent");
    changes.changed("metaGuidance", (&a.meta_guidance, meta_guidance), "the advice for the whole run");
    changes.changed("modelTier", (&a.model_tier, model_tier), "the model tier");
    changes.changed("metricsProfile", (&a.metrics_profile, metrics_profile), "the metrics profile");
    changes.changed(
        "validatedAgainstSpecVersion",
        (&a.validated_against_spec_version, validated_against_spec_version),
        "the version of the authoring rules",
    );
    changes.changed("recommended", (&a.recommended, recommended), "the recommended preferences");
    changes.changed("capabilities", (&a.capabilities, capabilities), "the capabilities that the agent needs");
    changes.changed(
        "compiledWarnings",
        (&a.compiled_warnings, compiled_warnings),
        "the list of the compiler's warnings",
    );
    changes.changed(
        "schemaVersion",
        (&a.schema_version, schema_version),
        "the version of the compiled format",
    );
    changes.changed("renderVersion", (&a.render_version, render_version), "the version of the text layout");
    let change_text = |what: &'static str| {
        move |presence: Presence, name: &str| match presence {
            Presence::OnlyB => format!("{what} `{name}` is new"),
            Presence::OnlyA => format!("{what} `{name}` was removed"),
            Presence::Both => format!("{what} `{name}` changed"),
        }
    };
    changes.by_name(
        "features",
        (&a.features, features),
        |item| item.feature_id.clone(),
        change_text("the feature"),
    );
    changes.by_name(
        "contracts",
        (&a.contracts, contracts),
        |item| item.contract_ref.to_string(),
        change_text("the contract"),
    );
    changes.by_name("refs", (&a.refs, refs), |item| item.ref_id.clone(), change_text("the snippet"));
    changes.by_name(
        "references",
        (&a.references, references),
        |item| item.id.clone(),
        change_text("the reference"),
    );
    changes.by_name(
        "assessments",
        (&a.assessments, assessments),
        |item| item.id.to_string(),
        change_text("the assessment"),
    );
    changes.by_name(
        "functions",
        (&a.functions, functions),
        |item| item.name.clone(),
        change_text("the function"),
    );
    changes.by_name(
        "bindings",
        (&a.bindings, bindings),
        |item| item.slot_id.clone(),
        change_text("the value of the slot"),
    );
    changes.found
}
