//! What a step delivered: contracts, assessments, criteria, notes, observations (G42, G43).

use serde_json::{Value, json};
use test_case::test_case;
use workrail_core::agent_site::AgentSite;
use workrail_core::builtins::contracts;
use workrail_core::interpret::{
    ApprovalState, AskedProof, OutputCheck, Submitted, capability_findings, check_output, start,
    user_findings,
};
use workrail_model::blocker::{BlockerCode, BlockerReport};
use workrail_model::capability::{Capability, CapabilityStatus, EnforcementGrade};
use workrail_model::compiled::{CompiledWorkflow, RequiredGrade};
use workrail_model::event::Context;
use workrail_model::placeholder::{is_placeholder, placeholder_in};

use crate::driver::context;
use crate::{compiled, plain, workflow};

fn one(extra: Value) -> Value {
    let mut step = plain("one");
    for (key, value) in extra.as_object().unwrap() {
        step[key] = value.clone();
    }
    workflow(json!([step]))
}

fn checked(
    workflow: &CompiledWorkflow,
    notes: Option<&str>,
    artifacts: &[Value],
    with: Value,
) -> OutputCheck {
    let context = context(with);
    let state = start(workflow, &context).unwrap().state;
    let known = &RequiredGrade::ALL;
    let submitted =
        Submitted { notes, artifacts, reported: artifacts, context: &context, given: &context, known };
    check_output(workflow, state.pending_step().unwrap(), submitted)
}

fn observed<'a>(artifacts: &'a [Value], context: &'a Context) -> Submitted<'a> {
    Submitted { notes: None, artifacts, reported: artifacts, context, given: context, known: &[] }
}

/// The skeleton with the example's values in place of its placeholders.
fn filled(skeleton: &Value, example: &Value) -> Value {
    match (skeleton, example) {
        (Value::Object(members), Value::Object(values)) => {
            let filled = members.iter().map(|(name, inner)| match values.get(name) {
                Some(value) => (name.clone(), filled(inner, value)),
                // Any names are allowed here, as for dimensions.
                None => values.iter().next().map(|(name, value)| (name.clone(), value.clone())).unwrap(),
            });
            filled.collect()
        }
        (Value::String(text), value) if is_placeholder(text) => value.clone(),
        (Value::Array(_), value) => value.clone(),
        (constant, _) => constant.clone(),
    }
}

fn codes(check: &OutputCheck) -> Vec<BlockerCode> {
    check.findings.iter().map(|finding| finding.blocker.code).collect()
}

#[test]
fn notes_are_required_unless_waived() {
    let required = compiled(&one(json!({})));
    assert_eq!(codes(&checked(&required, Some("  \n"), &[], json!({}))), [BlockerCode::MissingRequiredNotes]);
    assert_eq!(codes(&checked(&required, Some("Did the work."), &[], json!({}))), []);
    let waived = compiled(&one(json!({ "notesOptional": true })));
    assert_eq!(codes(&checked(&waived, None, &[], json!({}))), []);
}

#[test]
fn every_contract_blocks_within_its_budget_and_shows_what_passes() {
    for contract in contracts() {
        let workflow = compiled(&one(json!({ "output": { "contractRef": contract.id } })));
        let passes = checked(&workflow, None, std::slice::from_ref(&contract.example), json!({}));
        assert_eq!(codes(&passes), [], "{}", contract.id);
        let missing = checked(&workflow, None, &[json!({ "kind": "wr.other" })], json!({}));
        assert_eq!(codes(&missing), [BlockerCode::MissingRequiredOutput], "{}", contract.id);
        let blocker = &missing.findings[0].blocker;
        assert!(blocker.message.as_str().contains("wr.other"), "submitted and wanted kinds are named");
        let fix = blocker.suggested_fix.as_ref().unwrap().as_str();
        let start = fix.find('{').unwrap();
        let shown: Value = serde_json::from_str(&fix[start..]).unwrap();
        let skeleton = &shown["output"]["artifacts"][0];
        assert!(placeholder_in(skeleton).is_some(), "{}: nothing shown passes as it is", contract.id);
        let again = checked(&workflow, None, &[filled(skeleton, &contract.example)], json!({}));
        assert_eq!(codes(&again), [], "{}: the shown shape passes once it is filled in", contract.id);
        let mut wrong = contract.example.clone();
        wrong["surprise"] = json!("x".repeat(5000));
        let invalid = checked(&workflow, None, &[wrong], json!({}));
        assert_eq!(codes(&invalid), [BlockerCode::InvalidRequiredOutput], "{}", contract.id);
        let blockers = invalid.findings.into_iter().map(|finding| finding.blocker).collect();
        assert!(BlockerReport::new(blockers).is_some());
    }
}

#[test]
fn an_optional_contract_may_be_missing_but_not_wrong() {
    let workflow = compiled(&one(json!({
        "outputContract": { "contractRef": "wr.contracts.loop_control", "required": false } })));
    assert_eq!(codes(&checked(&workflow, None, &[], json!({}))), []);
    let wrong = json!({ "kind": "wr.loop_control", "decision": "maybe" });
    let check = checked(&workflow, None, &[wrong], json!({}));
    assert_eq!(codes(&check), [BlockerCode::InvalidRequiredOutput]);
    let message = check.findings[0].blocker.message.as_str().to_owned();
    assert!(message.contains("\"continue\", \"stop\"") && message.contains("\"maybe\""), "{message}");
}

fn assessed() -> Value {
    let mut source = one(json!({
        "assessmentRefs": ["ready"],
        "assessmentConsequences": [{ "when": { "anyEqualsLevel": "low" },
            "effect": { "kind": "require_followup", "guidance": "Look again." } }],
    }));
    source["assessments"] = json!([
        { "id": "ready", "purpose": "Ready?", "dimensions": [
            { "id": "confidence", "purpose": "How sure?", "levels": ["low", "high"] },
            { "id": "scope", "purpose": "In scope?", "levels": ["no", "yes"], "required": false },
        ] },
        { "id": "safe", "purpose": "Safe?", "dimensions": [
            { "id": "risk", "purpose": "How risky?", "levels": ["bad", "fine"] }] },
    ]);
    source
}

#[test_case(json!({ "confidence": "high" }), &[]; "plain level")]
#[test_case(json!({ "confidence": { "level": " HIGH ", "rationale": "r" } }), &[]; "normalised level")]
#[test_case(json!({ "confidence": "low" }), &[BlockerCode::AssessmentFollowupRequired]; "follow-up")]
#[test_case(json!({ "confidence": "medium" }), &[BlockerCode::InvalidRequiredOutput]; "unknown level")]
#[test_case(json!({ "scope": "yes" }), &[BlockerCode::InvalidRequiredOutput]; "missing dimension")]
#[test_case(json!({ "confidence": "high", "mood": "good" }), &[BlockerCode::InvalidRequiredOutput]; "unknown dimension")]
#[test_case(json!({ "confidence": 3 }), &[BlockerCode::InvalidRequiredOutput]; "wrong type")]
fn assessments(dimensions: Value, expected: &[BlockerCode]) {
    let artifact = json!({ "kind": "wr.assessment", "dimensions": dimensions });
    let check = checked(&compiled(&assessed()), Some("Looked at it."), &[artifact], json!({}));
    assert_eq!(codes(&check), expected);
}

#[test]
fn normalised_levels_are_recorded_as_declared_and_noted() {
    let artifact = json!({ "kind": "wr.assessment", "dimensions": { "confidence": "High" } });
    let check = checked(&compiled(&assessed()), Some("Looked at it."), &[artifact], json!({}));
    let accepted = &check.assessments[0];
    assert_eq!(accepted.dimensions[0].level.as_str(), "high");
    assert_eq!(accepted.normalization_notes.len(), 1);
}

#[test]
fn several_assessments_are_matched_by_id() {
    let mut source = assessed();
    source["steps"][0]["assessmentRefs"] = json!(["ready", "safe"]);
    let workflow = compiled(&source);
    let ready =
        json!({ "kind": "wr.assessment", "assessmentId": "ready", "dimensions": { "confidence": "high" } });
    let safe = json!({ "kind": "wr.assessment", "assessmentId": "safe", "dimensions": { "risk": "fine" } });
    let both = checked(&workflow, Some("n"), &[safe, ready.clone()], json!({}));
    assert_eq!((codes(&both), both.assessments.len()), (vec![], 2));
    let half = checked(&workflow, Some("n"), &[ready], json!({}));
    assert_eq!(codes(&half), [BlockerCode::MissingRequiredOutput]);
}

#[test]
fn criteria_and_assessments_are_both_enforced() {
    let mut source = assessed();
    source["steps"][0]["validationCriteria"] =
        json!([{ "type": "contains", "value": "EVIDENCE", "message": "name the evidence" }]);
    let workflow = compiled(&source);
    let check = checked(&workflow, Some("no"), &[], json!({}));
    assert_eq!(codes(&check), [BlockerCode::MissingRequiredOutput, BlockerCode::InvalidRequiredOutput]);
}

#[test_case(json!([{ "type": "contains", "value": "Done", "message": "m" }]), "done", false; "contains is exact")]
#[test_case(json!([{ "type": "contains", "value": "Answer:", "message": "m" }]), "**Answer**: 3", true; "emphasis before the colon")]
#[test_case(json!([{ "type": "contains", "value": "Answer:", "message": "m" }]), "**Answer:** 3", true; "emphasis around the colon")]
#[test_case(json!([{ "type": "contains", "value": "a*b", "message": "m" }]), "ab", false; "marks that are asked for count")]
#[test_case(json!([{ "type": "regex", "pattern": "^(?!.*TODO).*$", "flags": "s", "message": "m" }]), "a\nTODO", false; "look-ahead fails")]
#[test_case(json!([{ "type": "regex", "pattern": "^(?!.*TODO).*$", "flags": "s", "message": "m" }]), "a\nb", true; "look-ahead passes")]
#[test_case(json!([{ "type": "regex", "pattern": "RESULT", "flags": "i", "message": "m" }]), "the result", true; "ignore case")]
#[test_case(json!([{ "type": "length", "min": 3, "max": 4, "message": "m" }]), "\u{1f600}\u{1f600}", true; "utf-16 units")]
#[test_case(json!({ "or": [{ "type": "contains", "value": "a", "message": "m" }, { "type": "contains", "value": "b", "message": "m" }] }), "b", true; "or")]
#[test_case(json!({ "not": { "type": "contains", "value": "a", "message": "m" } }), "a", false; "not")]
#[test_case(json!([{ "type": "schema", "schema": { "type": "object", "required": ["x"] }, "message": "m" }]), "{\"x\":1}", true; "schema")]
#[test_case(json!([{ "type": "schema", "schema": { "type": "object", "required": ["x"] }, "message": "m" }]), "\"{\\\"x\\\":1}\"", true; "quoted json")]
#[test_case(json!([{ "type": "schema", "schema": { "type": "object" }, "message": "m" }]), "not json", false; "not json")]
#[test_case(json!([{ "type": "contains", "value": "zz", "message": "m", "condition": { "var": "strict" } }]), "x", true; "rule without its condition")]
fn criteria(criteria: Value, notes: &str, passes: bool) {
    let workflow = compiled(&one(json!({ "validationCriteria": criteria })));
    let check = checked(&workflow, Some(notes), &[], json!({}));
    assert_eq!(check.findings.is_empty(), passes, "{:?}", check.findings);
}

/// A rule that needs evidence: what the notes claim is one thing, whether it is known another (G107).
#[test_case(json!([claim("passed", "checked")]), "passed", &[] => (0, 1); "a claim alone")]
#[test_case(json!([claim("passed", "checked")]), "passed", &[RequiredGrade::Observed] => (0, 1); "observed is less")]
#[test_case(json!([claim("passed", "checked")]), "passed", &[RequiredGrade::Checked] => (0, 0); "known")]
#[test_case(json!([claim("passed", "checked")]), "Read the parser.", &[RequiredGrade::Checked] => (1, 0); "evidence without the claim")]
#[test_case(json!([claim("passed", "checked"), claim("seen", "observed")]), "passed, seen", &[] => (0, 2); "each is named")]
#[test_case(json!([claim("passed", "checked"), text("why")]), "passed", &[] => (1, 1); "with a text that fails")]
#[test_case(json!({ "or": [claim("passed", "checked"), text("not needed")] }), "not needed", &[] => (0, 0); "another way to pass")]
#[test_case(json!({ "or": [text("not needed"), claim("passed", "checked")] }), "passed", &[] => (0, 1); "no other way")]
#[test_case(json!([{ "type": "contains", "value": "passed", "message": "m", "condition": { "var": "strict" }, "evidence": { "min": "checked" } }]), "passed", &[] => (0, 0); "without its condition")]
fn a_criterion_can_ask_for_evidence(criteria: Value, notes: &str, known: &[RequiredGrade]) -> (usize, usize) {
    let workflow =
        compiled(&one(json!({ "validationCriteria": criteria, "checks": [{ "command": "test" }] })));
    let context = context(json!({}));
    let state = start(&workflow, &context).unwrap().state;
    let submitted = Submitted {
        notes: Some(notes),
        artifacts: &[],
        reported: &[],
        context: &context,
        given: &context,
        known,
    };
    let check = check_output(&workflow, state.pending_step().unwrap(), submitted);
    (check.findings.len(), check.unproven.len())
}

fn text(value: &str) -> Value {
    json!({ "type": "contains", "value": value, "message": "m" })
}

fn claim(value: &str, min: &str) -> Value {
    let mut rule = text(value);
    rule["evidence"] = json!({ "min": min });
    rule
}

#[test]
fn a_near_miss_is_named() {
    let criteria = json!([{ "type": "contains", "value": "Answer:", "message": "Write the answer." }]);
    let workflow = compiled(&one(json!({ "validationCriteria": criteria })));
    let message = |notes: &str| {
        let check = checked(&workflow, Some(notes), &[], json!({}));
        check.findings[0].blocker.message.as_str().to_owned()
    };
    insta::assert_snapshot!([message("**answer:** 3"), message("It is 3.")].join("\n"));
}

/// Broke: the text that the notes lack was shown with a value in it, which would not have passed.
#[test]
fn a_near_miss_quotes_the_text_as_it_is_checked() {
    let criteria = json!([{ "type": "contains", "value": "Use {{tool}}", "message": "Name {{tool}}." }]);
    let workflow = compiled(&one(json!({ "validationCriteria": criteria })));
    let message = |notes: &str| {
        let check = checked(&workflow, Some(notes), &[], json!({ "tool": "make" }));
        check.findings.first().map(|finding| finding.blocker.message.as_str().to_owned())
    };
    insta::assert_snapshot!(message("use {{TOOL}}").unwrap(), @r#"The notes do not pass: Name make. The notes have it in a different letter case: write "Use {{tool}}"."#);
    assert_eq!(message("Use {{tool}}"), None);
}

#[test_case("Look again." => "Look again. Then assess again and resubmit."; "plain guidance")]
#[test_case("Look again. Then rate again." => "Look again. Then assess again and resubmit."; "the author says so at the end")]
#[test_case("Look, then rate again. List the rest." => "Look, then rate again. List the rest. Then resubmit."; "the author says so before")]
fn a_follow_up_asks_once_for_another_rating(guidance: &str) -> String {
    let mut source = assessed();
    source["steps"][0]["assessmentConsequences"][0]["effect"]["guidance"] = json!(guidance);
    let artifact = json!({ "kind": "wr.assessment", "dimensions": { "confidence": "low" } });
    let check = checked(&compiled(&source), Some("Looked at it."), &[artifact], json!({}));
    check.findings[0].blocker.suggested_fix.as_ref().unwrap().as_str().to_owned()
}

/// G46: what a step says about its proof must not contradict the proof itself.
#[test_case("passed", "passed", &[]; "both passed")]
#[test_case("partial", "failed", &[]; "both negative")]
#[test_case("partial", "passed", &[]; "partial leaves it open")]
#[test_case("failed", "passed", &[BlockerCode::MissingContextKey]; "failed is not passed")]
fn passed_with_a_report_that_failed_is_refused(result: &str, verified: &str, expected: &[BlockerCode]) {
    let workflow = compiled(&one(json!({
        "outputContract": { "contractRef": "wr.contracts.verification_report" },
        "sets": { "verified": { "values": ["passed", "failed", "stuck"] } },
    })));
    let report = |result: &str| {
        json!({ "kind": "wr.verification_report", "result": result,
            "checks": [{ "name": "on the old printer", "result": "skipped" }] })
    };
    // A second report that passed takes nothing back, wherever it stands.
    for artifacts in
        [vec![report(result)], vec![report(result), report("passed")], vec![report("passed"), report(result)]]
    {
        let check = checked(&workflow, None, &artifacts, json!({ "verified": verified }));
        assert_eq!(codes(&check), expected, "{:?}", check.findings);
    }
}

#[test]
fn a_pattern_that_takes_too_long_counts_as_not_matching() {
    let workflow = compiled(&one(json!({ "validationCriteria": [
        { "type": "regex", "pattern": "^(?:(?=a)a|(?=a)a)+b$", "message": "m" }] })));
    let check = checked(&workflow, Some(&"a".repeat(20_000)), &[], json!({}));
    assert_eq!(codes(&check), [BlockerCode::InvalidRequiredOutput]);
}

/// G62: what an agent reports about itself, including a use, is recorded as weak.
#[test]
fn divergences_and_observations_are_facts() {
    let workflow = compiled(&one(json!({})));
    let artifacts = [
        json!({ "kind": "wr.workflow_divergence", "reason": "safety_stop", "summary": "s", "relatedStepId": "one" }),
        json!({ "kind": "wr.capability_observation", "capability": "delegation", "status": "available" }),
        json!({ "kind": "wr.capability_observation", "capability": "web_browsing", "status": "unavailable",
                "attempt": { "result": "failure", "failureCode": "tool_missing" } }),
    ];
    let check = checked(&workflow, Some("n"), &artifacts, json!({}));
    assert_eq!(check.divergences.len(), 1);
    let grades: Vec<EnforcementGrade> =
        check.capabilities.iter().map(|fact| fact.provenance.grade()).collect();
    assert_eq!(
        grades,
        [EnforcementGrade::Weak, EnforcementGrade::Weak],
        "whatever an agent reports of itself is weak"
    );
    assert!(check.capabilities.iter().all(|fact| fact.provenance.check().is_ok()));
    assert_eq!(codes(&check), []);
}

#[test_case(json!({ "kind": "wr.workflow_divergence", "reason": "no such reason", "summary": "s" }), "safety_stop"; "unknown reason")]
#[test_case(json!({ "kind": "wr.workflow_divergence", "reason": "safety_stop" }), "`summary` is missing"; "no summary")]
#[test_case(json!({ "kind": "wr.capability_observation", "capability": "flying", "status": "available" }), "web_browsing"; "unknown capability")]
#[test_case(json!({ "text": "a table" }), "has no `kind`"; "no kind")]
#[test_case(json!("a table"), "has no `kind`"; "not an object")]
fn an_artifact_that_cannot_be_read_is_answered_not_dropped(artifact: Value, told: &str) {
    let check = checked(&compiled(&one(json!({}))), Some("n"), &[artifact], json!({}));
    assert_eq!(codes(&check), [BlockerCode::InvalidRequiredOutput]);
    assert!(check.findings[0].blocker.message.as_str().contains(told), "{:?}", check.findings);
}

/// G62: only the probe that WorkRail injected is strong evidence.
#[test]
fn a_required_capability_is_probed_first_and_only_its_own_observation_answers() {
    let mut source = one(json!({}));
    source["capabilities"] = json!({ "required": ["web_browsing"] });
    let workflow = compiled(&source);
    let context = context(json!({}));
    let state = start(&workflow, &context).unwrap().state;
    let pending = state.pending_step().unwrap();
    assert_eq!(pending.step_id.as_str(), "wr-probe-web_browsing.probe");
    let observation = |name: &str| {
        json!({ "kind": "wr.capability_observation", "capability": name, "status": "available",
                "attempt": { "result": "success" } })
    };
    let wrong = check_output(&workflow, pending, observed(&[observation("delegation")], &context));
    assert_eq!(codes(&wrong), [BlockerCode::InvalidRequiredOutput]);
    let right = check_output(&workflow, pending, observed(&[observation("web_browsing")], &context));
    assert_eq!(codes(&right), []);
    assert_eq!(right.capabilities[0].provenance.grade(), EnforcementGrade::Strong);
    let mut observed = std::collections::BTreeMap::new();
    assert_eq!(capability_findings(&workflow, pending, &observed), [], "the probe itself may run");
    observed.insert(Capability::WebBrowsing, CapabilityStatus::Unavailable);
    assert_eq!(
        capability_findings(&workflow, pending, &observed)[0].blocker.code,
        BlockerCode::RequiredCapabilityUnavailable
    );
}

#[test]
fn what_only_the_user_can_give_blocks_until_it_is_given_or_approved() {
    let workflow = compiled(&one(json!({
        "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
            "description": "Which part?", "contextKey": "chosenPart" }],
        "requireConfirmation": { "kind": "human_approval" },
    })));
    let empty = context(json!({}));
    let state = start(&workflow, &empty).unwrap().state;
    let pending = state.pending_step().unwrap();
    let count = |context, approval| {
        user_findings(&workflow, pending, context, approval, AskedProof::Any, &AgentSite::Local).len()
    };
    assert_eq!(count(&empty, ApprovalState::None), 2);
    let given = context(json!({ "chosenPart": "a" }));
    assert_eq!(count(&given, ApprovalState::None), 1);
    assert_eq!(count(&empty, ApprovalState::Rejected { reason: None }), 2);
    assert_eq!(count(&empty, ApprovalState::ForOther), 2);
    assert_eq!(count(&empty, ApprovalState::Approved), 1, "a question is answered, not approved");
    assert_eq!(count(&given, ApprovalState::Approved), 0);
    let rejected = ApprovalState::Rejected { reason: Some("Not on a Friday.") };
    let findings = user_findings(&workflow, pending, &given, rejected, AskedProof::Any, &AgentSite::Local);
    assert!(findings[0].blocker.message.as_str().ends_with("Not on a Friday."), "{findings:?}");
}
