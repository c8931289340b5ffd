//! What agents read: instructions, slash commands and subagents. The single source for clients' files and plugins.

/// Marks every installed file that belongs to WorkRail as a whole: a file without it is not ours.
pub(super) const WRITTEN_BY_INSTALL: &str = "Written by `workrail install`; `workrail uninstall` removes it.";

/// Marks files of a plugin, which its host installs and removes.
pub(super) const WRITTEN_BY_RENDER: &str = "Written by `workrail plugin render`.";

/// Which command writes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileWriter {
    Install,
    PluginRender,
}

impl FileWriter {
    /// The comment in the file.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Install => WRITTEN_BY_INSTALL,
            Self::PluginRender => WRITTEN_BY_RENDER,
        }
    }
}

/// Read by the agent at the start of every chat.
pub(super) const INSTRUCTIONS: &str = "\
## WorkRail

The MCP server `workrail` runs workflows: it gives one step at a time and records each one before it shows the next.

- When the user asks for WorkRail or names a workflow: `list_workflows` lists them, `start_workflow` starts one with \
the user's goal.
- Do only the pending step. `continue_workflow` completes it, with notes about what was done in that step.
- In a new chat, after a compaction or a rewind: `resume_session` with a few words of the goal returns the pending step and \
what was recorded.
- Only the user approves and rejects. Ask the user the questions of a step; never answer for them. A blocked reply says \
which command they run.
";

/// A slash command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Start,
    Resume,
}

impl SlashCommand {
    pub(super) const ALL: [Self; 2] = [Self::Start, Self::Resume];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "workrail",
            Self::Resume => "workrail-resume",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Start => "Start a WorkRail workflow for a goal",
            Self::Resume => "Continue a WorkRail run",
        }
    }

    /// What arguments it takes.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Start => "the goal, and the workflow if you know it",
            Self::Resume => "the run's label or a few words of its goal",
        }
    }

    /// What the agent is asked to do; `typed` is the placeholder for what the user typed after the command.
    pub(super) fn text(self, typed: &str) -> String {
        match self {
            Self::Start => format!(
                "Do this with a WorkRail workflow: {typed}\n\n\
                 1. Call `list_workflows` of the MCP server `workrail` and choose the workflow that fits. If the user's \
                 text names one, use that one.\n\
                 2. Call `start_workflow` with its id, and with the user's text as `goal`.\n\
                 3. Do the step in the reply, and only that step. Complete it with the call at the end of the reply.\n\
                 4. Continue until the run is complete or waits for the user.\n"
            ),
            Self::Resume => format!(
                "Continue this WorkRail run: {typed}\n\n1. Call `resume_session` of the MCP server `workrail` with the \
                 user's text as `query`. Without text, omit `query` to resume the run last worked on in this \
                 folder.\n2. Do the pending step, and only that step. Complete it with the call at the end of the \
                 reply.\n3. Continue until the run is complete or waits for the user.\n"
            ),
        }
    }
}

/// A subagent that delegating steps name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    Executor,
    Reviewer,
}

impl Agent {
    pub(super) const ALL: [Self; 2] = [Self::Executor, Self::Reviewer];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Executor => "workrail-executor",
            Self::Reviewer => "workrail-reviewer",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Executor => {
                "Carries out one task or routine that a WorkRail step delegates, and reports the result. Use it for every \
                 subagent that a WorkRail step asks for."
            }
            Self::Reviewer => {
                "Reviews a change, a plan or a result for a WorkRail step and reports findings with evidence. It changes no files."
            }
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Executor => {
                "You carry out one task that a WorkRail step delegates to you.\n\n- If the task gives a call to the \
                 MCP server `workrail`, make that call first and follow the run it starts to the end. That run is \
                 part of the one that delegated it.\n- Otherwise do what the task says with the inputs that it \
                 gives.\n- Do not start other workflows, and do not continue the run that delegated to you.\n- Change \
                 files only if the task says so.\n- Report what you found or did, with locations and evidence; what \
                 you checked without finding a problem; and what you could not do.\n"
            }
            Self::Reviewer => {
                "You review what a WorkRail step gives you: a change, a plan or a result.\n\n- If the task gives a \
                 call to the MCP server `workrail`, make that call first and follow the run it starts to the end.\n- \
                 Read the code, its callers and its tests yourself; do not rely on summaries.\n- Try to refute each \
                 finding before you report it.\n- Edit no files, and do not continue the run that delegated to \
                 you.\n- Report each finding with its location, its consequence, a case that shows it, its severity \
                 and your confidence; and what you checked without finding a problem.\n"
            }
        }
    }
}
