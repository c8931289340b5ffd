//! What the codes of blockers, gaps, warnings, divergences and damage mean.

use workrail_model::blocker::BlockerCode;
use workrail_model::compiled::CompiledWarningCode;
use workrail_model::discovery::DiscoveryWarningCode;
use workrail_model::event::DivergenceReason;
use workrail_model::health::CorruptionKind;
use workrail_model::reason::{NonAssumableChoiceKind, UserOnlyDependencyReason};
use workrail_model::reply::WarningCode;

use super::Explanation;
use crate::compile::Code;

pub(super) fn blocker(code: BlockerCode) -> Explanation {
    let (what, why, remedy) = match code {
        BlockerCode::AssessmentFollowupRequired => (
            "An assessment gave a level for which the workflow requires more work.",
            "The author decided that the step is not complete at this level.",
            "The agent follows the guidance in the reply and assesses again.",
        ),
        BlockerCode::CheckFailed => (
            "A check of the step failed or took too long.",
            "WorkRail ran it on the files as they were when the step was submitted.",
            "The reply shows the end of its output. Fix what it found and send the step again.",
        ),
        BlockerCode::EditsNotAllowed => (
            "Files in the repository changed during a step that does not allow these changes.",
            "The author wants these changes only in a later step, for example after a plan is approved.",
            "Undo or stash the changes and send the step again. The reply names the files.",
        ),
        BlockerCode::ScopeExceeded => (
            "Files changed that are outside the scope that the run declared.",
            "The plan said what would change. Other changes are mistakes, or the plan has to say so.",
            "Undo or stash the changes, or declare them: the reply names the files and the context key.",
        ),
        BlockerCode::EvidenceMissing => (
            "The step requires evidence beyond the agent's word, and there is none.",
            "The author wants a result that a hook observed or WorkRail checked.",
            "The reply says what is missing. If a check is not trusted, a person trusts it with `workrail trust`.",
        ),
        BlockerCode::InvalidRequiredOutput => (
            "The artifact or the notes do not match what the step requires.",
            "Later steps rely on it.",
            "The reply names each field that is wrong and shows the shape. Correct it and send the step again.",
        ),
        BlockerCode::InvariantViolation => (
            "WorkRail reached a state that must not occur.",
            "Nothing after it could be relied on.",
            "Run `workrail doctor` and report the problem with its output.",
        ),
        BlockerCode::LoopLimitReached => (
            "A loop reached `maxIterations` before it was done.",
            "A loop without a limit might never end. With `onLimit: \"block\"` the run waits here; otherwise the loop ends and this is recorded.",
            "Decide to stop, or raise `maxIterations` in the workflow for new runs.",
        ),
        BlockerCode::MissingContextKey => (
            "The step must set a context key, and the call did not set it or gave a value that is not allowed.",
            "Conditions of later steps read the key.",
            "Send the key in `context` with one of the values that the step lists.",
        ),
        BlockerCode::MissingRequiredNotes => (
            "The step needs notes, and none were sent.",
            "Notes are the durable record of what was done.",
            "Send `output.notesMarkdown`. In the workflow, `notesOptional` makes notes optional.",
        ),
        BlockerCode::MissingRequiredOutput => (
            "The step must deliver an artifact, and none was sent.",
            "Later steps rely on it.",
            "Send the artifact in `output.artifacts`; the reply shows its shape.",
        ),
        BlockerCode::RequiredCapabilityUnavailable => (
            "The workflow requires a capability that the agent reported as unavailable.",
            "Its steps could not be done as they are written.",
            "Enable it and try it again in the step that tests it, continue with an agent that has it, or choose another workflow.",
        ),
        BlockerCode::RequiredCapabilityUnknown => (
            "The workflow requires a capability, and nobody has reported whether the agent has it.",
            "Its steps could not be relied on.",
            "The agent tests the capability and reports it with the artifact that the step shows.",
        ),
        BlockerCode::StorageCorruptionDetected => (
            "Stored data does not match its digest.",
            "Nothing may continue from data that cannot be trusted. WorkRail reports it with the error `SESSION_CORRUPT` and \
             records nothing. No version of WorkRail reports this code: it can only come from a log that another program \
             wrote.",
            "Run `workrail store verify`, then follow what it says.",
        ),
        BlockerCode::UserOnlyDependency => (
            "The step needs something that only a person can give: an approval, an answer, access or a file.",
            "The agent must not make it up.",
            "Run `workrail status` to see what is needed; then `workrail approve`, `reject` or `answer`, or use the console.",
        ),
    };
    Explanation { what, why, remedy }
}

pub(super) fn dependency(reason: UserOnlyDependencyReason) -> Explanation {
    let (what, why) = match reason {
        UserOnlyDependencyReason::NeedsUserSecretOrToken => {
            ("The step needs a secret or token of the user.", "An agent must not guess or invent a secret.")
        }
        UserOnlyDependencyReason::NeedsUserAccountAccess => {
            ("The step needs access to an account of the user.", "Only the user can grant it.")
        }
        UserOnlyDependencyReason::NeedsUserArtifact => {
            ("The step needs a file or document of the user.", "Only the user has it.")
        }
        UserOnlyDependencyReason::NeedsUserChoice => (
            "The step needs a choice that the agent must not make.",
            "Only the user can make this choice; the workflow's `choiceKind` says why.",
        ),
        UserOnlyDependencyReason::NeedsUserApproval => {
            ("The step needs the approval of a person.", "No tool of the agent can give it.")
        }
        UserOnlyDependencyReason::NeedsUserEnvironmentAction => (
            "The user has to do something on their machine or in another system.",
            "The agent cannot or must not do it.",
        ),
    };
    let remedy = "Supply it with `workrail answer` or `workrail approve`, in the console, or in the chat if the client can ask. In \
                  `full_auto_never_stop` it is recorded as a gap instead.";
    Explanation { what, why, remedy }
}

pub(super) fn choice(kind: NonAssumableChoiceKind) -> Explanation {
    let what = match kind {
        NonAssumableChoiceKind::PreferenceTradeoff => {
            "The choice weighs things that only the user can value."
        }
        NonAssumableChoiceKind::ScopeBoundary => "The choice decides what belongs to the task.",
        NonAssumableChoiceKind::IrreversibleAction => "The choice leads to something that cannot be undone.",
        NonAssumableChoiceKind::ExternalSideEffect => "The choice changes something outside the project.",
        NonAssumableChoiceKind::PolicyOrCompliance => "The choice is subject to a policy or to the law.",
    };
    Explanation {
        what,
        why: "The workflow's author gave it as the reason why the agent must not choose (`choiceKind`).",
        remedy: "Answer the question with `workrail answer`, in the console or in the chat.",
    }
}

pub(super) fn warning(code: WarningCode) -> Explanation {
    let (what, why, remedy) = match code {
        WarningCode::ReplayInputDiffers => (
            "The step was completed before with a different payload. The recorded result was returned.",
            "A completed step is never changed by a second call.",
            "Continue with the reply. To record the new payload as well, send it with the token in the warning.",
        ),
        WarningCode::PreferencesAboveRecommendation => (
            "The run's autonomy or risk policy goes beyond what the workflow recommends.",
            "The author recommends less autonomy.",
            "Lower it with `workrail session prefs set`, or accept the warning.",
        ),
        WarningCode::ReferenceUnresolved => (
            "A document that the workflow refers to was not found.",
            "The agent works without it.",
            "Add the file, or correct `source` and `resolveFrom` of the reference.",
        ),
        WarningCode::ContextKeyNeverSet => (
            "Steps were skipped because the context key that their conditions read was never set.",
            "They may have been meant to run.",
            "Set the key and go back, or declare it in `sets` of the workflow.",
        ),
        WarningCode::ClaimContradicted => (
            "What the agent sent contradicts what a hook of its host observed or what the repository shows.",
            "A report must not rely on a claim that is known to be wrong. The run continues, and a gap records it.",
            "The agent runs the command where the hook sees it, or corrects the claim. `workrail report RUN` shows both sides.",
        ),
        WarningCode::CapabilityDegraded => (
            "A preferred capability is unavailable.",
            "The run continues without it, and a gap records it.",
            "Nothing, or continue with an agent that has the capability.",
        ),
        WarningCode::LoopLimitReached => return blocker(BlockerCode::LoopLimitReached),
        WarningCode::GapRecorded => (
            "Something that would have stopped the run in another mode was recorded as a gap.",
            "`full_auto_never_stop` continues without what is missing.",
            "Look at the gaps with `workrail show RUN`; supply what is missing.",
        ),
        WarningCode::PinnedWorkflowDiffers => (
            "The workflow's file has changed since the run started.",
            "The run keeps the version that it was started with.",
            "`workrail workflow diff RUN WORKFLOW_ID` shows what changed. Start a new run to use the new version.",
        ),
        WarningCode::LegacyWorkflowId => (
            "The workflow's id has no namespace.",
            "It works, but such ids collide more easily.",
            "Rename it: `workrail workflow migrate FILE` shows the change; with `--write` it makes it.",
        ),
        WarningCode::AliasUsed => (
            "The workflow was started by an older name.",
            "The name still works and means the workflow that replaced it.",
            "Use the new id that the warning gives.",
        ),
        WarningCode::PreferencesPending => (
            "Preferences were changed; the change takes effect with the next completed step.",
            "The step in progress keeps its rules.",
            "Nothing.",
        ),
        WarningCode::UnknownArtifactKind => (
            "An artifact has an unknown kind in WorkRail's namespace.",
            "It is kept, and nothing reads it.",
            "Correct the kind; docs/reference/builtins.md lists the contracts and their kinds.",
        ),
        WarningCode::ArgumentsAdjusted => (
            "Arguments were not in the documented form; they were adjusted or ignored.",
            "The reply says which, so that a mistake does not go unnoticed.",
            "Send them as the reply shows.",
        ),
        WarningCode::WorkspaceAssumed => (
            "The call named no folder, so the server's own folder was used.",
            "You may have meant workflows and references of another project.",
            "Send `workspacePath`.",
        ),
        WarningCode::SourceUnreadable => (
            "Folders or files of workflows could not be read, and they take precedence over the started workflow.",
            "One of them may hold the version of the workflow that was meant.",
            "Make them readable and start again, if that version was meant. `workrail workflow list` names them.",
        ),
        WarningCode::UserAnswered => (
            "The client asked the user and sent an answer.",
            "The step no longer waits for the user, but it is not complete yet.",
            "The agent follows the next call in the reply.",
        ),
        WarningCode::UserAnswerNotRecorded => (
            "The client sent an answer from the user that was not recorded.",
            "What it is about, or the settings, changed in the meantime.",
            "Ask again.",
        ),
        WarningCode::RunClosed => {
            ("A person closed the run.", "An attempt or a checkpoint reopens it.", "Ask before you continue.")
        }
        WarningCode::ApprovedHow => (
            "The completed step was approved; the warning says how.",
            "A label at a terminal, an answer in the chat and a passkey prove different things.",
            "Nothing. `approvals.require` and `\"proof\": \"passkey\"` decide what is accepted.",
        ),
        WarningCode::CheckNotRun => (
            "A check of the step was not run; the warning says why.",
            "What it would have found is not known.",
            "Define it in `.workrail/checks.toml` and trust it with `workrail trust`. Both are for people.",
        ),
        WarningCode::CheckChangedTree => (
            "Files in the repository changed while a check ran.",
            "The check may have seen a different state than the one recorded.",
            "Submit steps only when nothing else changes files, and keep checks from writing to the repository.",
        ),
        WarningCode::RunReopened => (
            "A person had closed the run, and this call reopened it.",
            "The run is open again and is listed as such.",
            "Close it again with `workrail close` if that was not meant.",
        ),
    };
    Explanation { what, why, remedy }
}

pub(super) fn discovery(code: DiscoveryWarningCode) -> Explanation {
    match code {
        DiscoveryWarningCode::LegacyWorkflowId => warning(WarningCode::LegacyWorkflowId),
        DiscoveryWarningCode::AliasUsed => warning(WarningCode::AliasUsed),
        DiscoveryWarningCode::ReferenceUnresolved => warning(WarningCode::ReferenceUnresolved),
        DiscoveryWarningCode::CompilerWarning => Explanation {
            what: "The compiler has a warning about the workflow's file.",
            why: "The workflow runs, but something in it probably does not do what was meant.",
            remedy: "Run `workrail workflow validate FILE`.",
        },
        DiscoveryWarningCode::StaleWorkflow => Explanation {
            what: "The file was not checked against the current authoring rules.",
            why: "It may use patterns that no longer work well.",
            remedy: "Check it with `workrail workflow validate FILE`, then set `validatedAgainstSpecVersion` to the current version.",
        },
    }
}

pub(super) fn compiled(code: CompiledWarningCode) -> Explanation {
    super::diagnostics::explanation_of(match code {
        CompiledWarningCode::ConditionNeverHolds => Code::ConditionNeverHolds,
        CompiledWarningCode::FeatureWithoutEffect => Code::FeatureWithoutEffect,
        CompiledWarningCode::LoopControlledByContext => Code::LoopByContext,
        CompiledWarningCode::LoopWithoutDecisionStep => Code::LoopWithoutDecision,
    })
}

pub(super) fn divergence(reason: DivergenceReason) -> Explanation {
    let what = match reason {
        DivergenceReason::MissingUserContext => {
            "The agent departed from a step because it lacked information from the user."
        }
        DivergenceReason::CapabilityUnavailable => {
            "The agent departed from a step because it lacked a capability."
        }
        DivergenceReason::EfficiencySkip => {
            "The agent left out a part of a step that it considered unnecessary."
        }
        DivergenceReason::SafetyStop => "The agent stopped short of what a step asks for, for safety.",
        DivergenceReason::PolicyConstraint => "The agent departed from a step because a policy forbids it.",
    };
    Explanation {
        what,
        why: "A departure that is recorded can be judged; one that is not looks like completed work.",
        remedy: "Read the summary in `workrail show RUN` or in the report, and decide whether the work has to be done.",
    }
}

pub(super) fn corruption(kind: CorruptionKind) -> Explanation {
    let what = match kind {
        CorruptionKind::ManifestRecord => "A record of a session's manifest cannot be read.",
        CorruptionKind::ManifestMismatch => "A record of a session's manifest does not match its segment.",
        CorruptionKind::ManifestTail => {
            "A session's manifest ends with bytes that no interrupted write explains."
        }
        CorruptionKind::SegmentMissing => "A segment of a session's log is missing.",
        CorruptionKind::SegmentDigest => "A segment of a session's log does not match its digest.",
        CorruptionKind::SegmentUnreadable => "A segment of a session's log cannot be read.",
        CorruptionKind::Event => "An event in a session's log is not valid.",
        CorruptionKind::SegmentUnattested => "A session's manifest lost the record of a segment.",
        CorruptionKind::ManifestUnreadable => "A session's manifest cannot be read.",
        CorruptionKind::PendingContent => {
            "A write is complete except for content that is missing or damaged."
        }
        CorruptionKind::AccessDenied => {
            return Explanation {
                what: "The user that runs WorkRail may not read a part of the data directory.",
                why: "It is unknown whether the session is intact until it can be read.",
                remedy: "Give this user access to the path in the message, or run WorkRail as its owner.",
            };
        }
    };
    Explanation {
        what,
        why: "What comes before it is intact and can be shown; nothing continues from a damaged log.",
        remedy: "Run `workrail store verify`. `workrail store repair --dry-run` says what a repair keeps; a backup restores all.",
    }
}
