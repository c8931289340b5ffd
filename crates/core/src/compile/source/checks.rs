//! What a step wants run and known: checks, and the weakest evidence that is enough.

use workrail_model::compiled::RequiredGrade;
use workrail_model::name::CheckName;

use super::super::format::{EnumWord, Integer, authored};

authored! {
    /// A command that WorkRail runs when the step is submitted. The project defines the command in
    /// `.workrail/checks.toml`; it runs only after a person has trusted it with `workrail trust`. A check that fails blocks the
    /// step, or is a gap in `full_auto_never_stop`. A check that is not trusted or not defined is recorded as not run.
    struct CheckSource "a check" {
        /// The name of the check in the project's checks file. Usual names are `test` and `lint`.
        command "command": CheckName, required;
        /// The check is killed and has failed after this time, in milliseconds.
        timeout_ms "timeoutMs": Integer<100, 3_600_000>, optional("600000");
        /// When the check has passed.
        expect "expect": ExpectationSource, optional;
    }
}

authored! {
    /// What a passing check returns.
    struct ExpectationSource "`expect`" {
        /// The exit code.
        exit_code "exitCode": Integer<0, 255>, default(0, "0");
    }
}

authored! {
    /// How well the result of a step must be known. A claim alone then blocks the step, or is a gap in
    /// `full_auto_never_stop`.
    struct EvidenceSource "`evidence`" {
        /// `observed`: a hook of the agent's host saw commands, edits or subagents, or WorkRail saw files change or a
        /// check pass. `checked`: every check of the step passed; in a step without checks, WorkRail looked at the repository.
        min "min": EnumWord<RequiredGrade>, required;
    }
}
