//! `list_workflows`: order, precedence, filters, broken files, size, cost.

use std::sync::atomic::Ordering;

use serde_json::json;
use test_case::test_case;
use workrail_engine::request::ListWorkflows;
use workrail_model::discovery::{DISCOVERY_TEXT_BYTES_MAX, Precedence, WorkflowKind, WorkflowList};
use workrail_model::error::{ErrorCode, Retry};

use crate::scene::{Scene, authored, workflow};

fn ids(list: &WorkflowList) -> Vec<&str> {
    list.workflows.iter().map(|workflow| workflow.workflow_id.as_str()).collect()
}

fn library() -> Scene {
    let scene = Scene::new();
    let put = |precedence, reference: &str, text: &str| scene.shelf.put(precedence, reference, text);
    put(Precedence::Bundled, "wr.small_change.json", &workflow("wr.small_change"));
    put(Precedence::User, "bug-hunt.json", &workflow("bug-hunt"));
    put(Precedence::Custom, "review.json", &authored("team.review", &json!({ "metricsProfile": "review" })));
    put(Precedence::Project, "workflows/routines/gather.json", &workflow("team.gather"));
    put(Precedence::Project, "workflows/z.json", &workflow("team.zebra"));
    scene
}

#[test]
fn the_order_is_namespace_then_kind_then_name() {
    let list = library().list();
    assert_eq!(ids(&list), ["bug-hunt", "team.review", "team.zebra", "team.gather", "wr.small_change"]);
    assert_eq!(list.workflows[3].kind, WorkflowKind::Routine);
    assert_eq!((list.total, list.matched, list.is_grouped), (5, 5, false));
    insta::assert_snapshot!(list.text);
}

#[test]
fn the_hash_that_is_listed_is_the_hash_that_runs_are_pinned_to() {
    let scene = library();
    let slot = json!({
        "extensionPoints": [{ "slotId": "checker", "purpose": "Who checks.", "default": "nobody" }],
        "steps": [{ "id": "only", "title": "Only", "prompt": "Ask {{wr.bindings.checker}}." }],
    });
    scene.shelf.put(Precedence::User, "bound.json", &authored("team.bound", &slot));
    let unbound =
        scene.list().workflows.iter().find(|workflow| workflow.name.contains("bound")).unwrap().workflow_hash;
    scene.shelf.bind(r#"{"team.bound":{"checker":"the owner"}}"#);
    for listed in scene.list().workflows {
        let started = scene.start(listed.workflow_id.as_str()).unwrap();
        assert_eq!(started.workflow_hash, listed.workflow_hash, "{}", listed.workflow_id);
        assert_eq!(started.workflow_source_kind, listed.source_kind.source_kind());
        assert!(listed.workflow_id.as_str() != "team.bound" || listed.workflow_hash != unbound);
    }
}

#[test]
fn nothing_can_take_over_a_bundled_id_and_the_attempt_is_listed() {
    let scene = library();
    let before = scene.start("wr.small_change").unwrap().workflow_hash;
    let mut shown = Vec::new();
    for precedence in
        [Precedence::Plugin, Precedence::User, Precedence::Custom, Precedence::Git, Precedence::Project]
    {
        let scene = library();
        let evil = authored("wr.small_change", &json!({ "version": "9.9.9" }));
        scene.shelf.put(precedence, "evil.json", &evil);
        assert_eq!(scene.start("wr.small_change").unwrap().workflow_hash, before);
        let list = scene.list();
        assert_eq!(list.unusable.len(), 1, "{precedence:?}");
        let refused = &list.unusable[0];
        assert_eq!((refused.source_kind, refused.file.as_str()), (precedence, "evil.json"));
        shown.push(format!("{}: {}", precedence.word(), refused.errors.join("\n")));
        assert!(list.text.contains(&format!("- {} evil.json", precedence.word())), "{}", list.text);
    }
    insta::assert_snapshot!("an_id_in_our_namespace", shown.join("\n"));
    scene.shelf.put(Precedence::User, "new.json", &workflow("wr.brand_new"));
    let error = scene.start("wr.brand_new").unwrap_err();
    assert_eq!(error.code, ErrorCode::WorkflowInvalid);
    assert!(error.message.contains("user.brand_new"), "{}", error.message);
}

#[test]
fn a_duplicate_within_one_level_is_listed_and_one_across_levels_is_not() {
    let scene = Scene::new();
    scene.shelf.put_in(Precedence::Custom, 0, "one.json", Some(workflow("team.x").into_bytes()));
    let second = authored("team.x", &json!({ "version": "2.0.0" }));
    scene.shelf.put_in(Precedence::Custom, 1, "two.json", Some(second.into_bytes()));
    scene.shelf.put(Precedence::User, "low.json", &workflow("team.x"));
    let list = scene.list();
    assert_eq!(
        list.workflows.iter().map(|workflow| workflow.version.as_str()).collect::<Vec<_>>(),
        ["2.0.0"]
    );
    assert_eq!(list.unusable.iter().map(|own| own.file.as_str()).collect::<Vec<_>>(), ["one.json"]);
    insta::assert_snapshot!("a_duplicate_within_one_level", list.unusable[0].errors.join("\n"));
}

#[test]
fn every_file_that_cannot_be_used_is_named_with_the_reason() {
    let scene = library();
    scene.shelf.put(Precedence::User, "broken.json", "{ \"id\": \"team.broken\", ");
    scene.shelf.put(Precedence::User, "empty.jsonc", "");
    let steps = json!({ "steps": [{ "id": "a", "title": "A" }, { "id": "a", "titel": "A", "prompt": "x" }] });
    scene.shelf.put(Precedence::Project, "workflows/wrong.json", &authored("team.wrong", &steps));
    scene.shelf.put_in(Precedence::Custom, 0, "locked.json", None);
    scene.shelf.problem("/absent", "the folder does not exist", "create it");
    let list = scene.list();
    assert_eq!(list.workflows.len(), 5);
    insta::assert_snapshot!(list.text);
    let error = scene.start("team.wrong").unwrap_err();
    assert_eq!(error.code, ErrorCode::WorkflowInvalid);
    assert!(error.message.contains("titel"), "{}", error.message);
}

#[test]
fn an_invalid_file_keeps_its_id_so_that_nothing_else_runs_under_it() {
    let scene = Scene::new();
    scene.shelf.put(Precedence::User, "x.json", &workflow("team.x"));
    assert!(scene.start("team.x").is_ok());
    scene.shelf.put(Precedence::Project, "workflows/x.json", "{ \"id\": \"team.x\" }");
    assert_eq!(scene.start("team.x").unwrap_err().code, ErrorCode::WorkflowInvalid);
    let list = scene.list();
    assert_eq!((list.workflows.len(), list.unusable.len()), (0, 1));
}

#[test]
fn broken_bindings_are_one_problem_and_stop_every_start() {
    let scene = library();
    scene.shelf.bind("[");
    let list = scene.list();
    assert_eq!((list.workflows.len(), list.unusable.len()), (5, 1));
    assert!(list.text.contains(".workrail/bindings.json"), "{}", list.text);
    assert_eq!(scene.start("wr.small_change").unwrap_err().code, ErrorCode::WorkflowInvalid);
}

#[test_case(&[], "zebra", &["team.zebra"]; "a word")]
#[test_case(&[], "ＴＥＡＭ zeb", &["team.zebra"]; "width, case and beginnings")]
#[test_case(&[], "team what", &["team.review", "team.zebra", "team.gather"]; "words of id and description")]
#[test_case(&["review"], "", &["team.review"]; "a tag")]
#[test_case(&[" REVIEW"], "", &["team.review"]; "a tag in any case")]
#[test_case(&["review", "coding"], "", &[]; "all of the tags")]
#[test_case(&["review"], "zebra", &[]; "both must hold")]
#[test_case(&[], "日本", &[]; "a query without words matches nothing")]
fn filters(tags: &[&str], query: &str, expected: &[&str]) {
    let list = library().search(tags, query);
    assert_eq!(ids(&list), expected);
    assert_eq!((list.total, list.matched), (5, expected.len()));
    let next = list.next_call.map(|call| call.tool);
    match expected.len() {
        0 => {
            assert!(list.text.contains("No workflow matches. There are 5 in all"), "{}", list.text);
            assert_eq!(next.map(|tool| tool.as_str()), Some("list_workflows"));
        }
        1 => {
            assert_eq!(next.map(|tool| tool.as_str()), Some("start_workflow"));
            let call = format!("Start it: start_workflow {{\"workflowId\":\"{}\"}}", expected[0]);
            assert!(list.text.contains(&call), "{}", list.text);
        }
        _ => assert_eq!(next, None),
    }
}

#[test]
fn an_empty_list_says_where_files_go() {
    insta::assert_snapshot!(Scene::new().list().text, @"No workflow can be started. Put workflow files into `workflows/` of the workspace or into `~/.workrail/workflows`; `workrail workflow new team.name` writes one to start from.");
}

#[test]
fn workflows_beyond_the_limit_are_counted_and_every_text_fits() {
    for count in [1, 30, 40, 60, 400] {
        let scene = Scene::new();
        for number in 0..count {
            let profile = ["coding", "review", "none"][number % 3];
            let id = format!("team{}.flow_{number}", number % 7);
            let long = json!({ "metricsProfile": profile, "description": "word ".repeat(90) });
            scene.shelf.put(Precedence::User, &format!("{number}.json"), &authored(&id, &long));
            scene.shelf.put(Precedence::User, &format!("bad-{number}.json"), "{ \"id\": 7 }");
            scene.shelf.put(
                Precedence::User,
                &format!("old-{number}.json"),
                &workflow(&format!("old-{number}")),
            );
        }
        let list = scene.list();
        assert!(list.text.len() <= DISCOVERY_TEXT_BYTES_MAX, "{count}: {}", list.text.len());
        assert_eq!((list.matched, list.is_grouped), (2 * count, count >= 30), "{count}");
        assert!(list.unusable.len() <= 50 && list.unusable.len() + list.unusable_left_out == count);
        if list.is_grouped {
            assert!(list.workflows.is_empty());
            let group = &list.groups[0];
            assert!(list.text.contains(&format!("- {}: {}", group.name, group.count)));
            assert_eq!(scene.search(&["coding"], "").matched, count.div_ceil(3));
        }
    }
}

#[test]
fn a_warm_listing_reads_nothing_and_a_changed_file_is_read_again() {
    let scene = library();
    scene.shelf.put(Precedence::User, "broken.json", "{");
    let first = scene.list();
    let cold = scene.shelf.reads.swap(0, Ordering::Relaxed);
    assert!(cold > 0);
    assert_eq!(scene.list(), first);
    assert_eq!(scene.shelf.reads.load(Ordering::Relaxed), 0);
    let changed = authored("team.zebra", &json!({ "version": "1.0.1" }));
    scene.shelf.put(Precedence::Project, "workflows/z.json", &changed);
    let second = scene.list();
    assert_eq!(second.workflows[2].version, "1.0.1");
    assert_ne!(second.workflows[2].workflow_hash, first.workflows[2].workflow_hash);
    assert_eq!(scene.shelf.reads.load(Ordering::Relaxed), 2, "once for its id, once to compile it");
}

#[test]
fn a_suggested_id_that_is_taken_gets_digits_of_the_source() {
    let scene = library();
    assert_eq!(scene.list().workflows[0].suggested_id.as_deref(), Some("user.bug_hunt"));
    scene.shelf.put(Precedence::User, "other.json", &workflow("user.bug_hunt"));
    let suggested = scene.list().workflows[0].suggested_id.clone().unwrap();
    assert!(
        suggested.starts_with("user.bug_hunt_") && suggested.len() == "user.bug_hunt_1234".len(),
        "{suggested}"
    );
    assert_eq!(scene.list().workflows[0].suggested_id, Some(suggested));
}

#[test]
fn arguments_out_of_bounds_are_refused() {
    let scene = library();
    let refused = |request: ListWorkflows| scene.engine.list_workflows(request).unwrap_err().code;
    let long = ListWorkflows { query: Some("x".repeat(1_001)), ..ListWorkflows::default() };
    assert_eq!(refused(long), ErrorCode::ValidationError);
    let relative = ListWorkflows { workspace_path: Some("work".to_owned()), ..ListWorkflows::default() };
    assert_eq!(refused(relative), ErrorCode::ValidationError);
}

/// Broke: 21 short tags were refused for their length, which was allowed: "`tags` has 21 bytes, at most 1000".
#[test]
fn too_many_tags_are_counted_and_long_ones_measured() {
    let scene = library();
    let refused = |tags: Vec<String>| {
        let request = ListWorkflows { tags, ..ListWorkflows::default() };
        let error = scene.engine.list_workflows(request).unwrap_err();
        assert_eq!(error.code, ErrorCode::ValidationError);
        error.message
    };
    assert_eq!(refused(vec!["t".to_owned(); 21]), "`tags` has 21 entries, at most 20 are allowed.");
    assert_eq!(refused(vec!["t".repeat(1_001)]), "`tags` has 1001 bytes, at most 1000 are allowed.");
}

#[test]
fn inflected_words_and_filler_words_still_find_a_workflow() {
    let scene = Scene::new();
    for id in ["wr.documentation", "wr.shaping", "wr.small_change"] {
        scene.shelf.put(Precedence::Bundled, &format!("{id}.json"), &workflow(id));
    }
    assert_eq!(ids(&scene.search(&[], "docs")), ["wr.documentation"]);
    assert_eq!(ids(&scene.search(&[], "please shape a small zzz")), ["wr.shaping", "wr.small_change"]);
    assert_eq!(ids(&scene.search(&[], "names of shapes, small")), ["wr.shaping", "wr.small_change"]);
    assert!(scene.search(&[], "zzz").workflows.is_empty());
    let near = scene.search(&[], "please shape the teapot");
    assert_eq!(ids(&near), ["wr.shaping"]);
    assert_eq!(
        near.next_call.map(|call| call.tool.as_str()),
        Some("list_workflows"),
        "a near match is no match"
    );
    assert!(scene.search(&[], "sha the docu").workflows.is_empty(), "beginnings are no words");
}

/// What was found before the search ended shows nothing about what exists.
#[test]
fn a_search_that_ended_early_answers_nothing_and_is_not_remembered() {
    let scene = library();
    let known = scene.list().workflows.len();
    scene.shelf.interrupt(Some("workflows: Too many open files"));
    let refused = scene.engine.list_workflows(ListWorkflows::default()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreBusy);
    for id in ["team.unknown", "wr.bug_hunt"] {
        let refused = scene.start(id).unwrap_err();
        assert_eq!(refused.code, ErrorCode::StoreBusy, "{id}");
        assert_ne!(refused.retry, Retry::NotRetryable, "{id}");
    }
    scene.shelf.interrupt(None);
    assert_eq!(scene.list().workflows.len(), known);
}
