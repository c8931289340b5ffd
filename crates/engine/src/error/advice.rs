//! What to do next, for each reader of an error: an agent, which sends calls; a person, who runs commands; and members
//! of a team, who have no shell on the machine of the store.

use workrail_core::agent_site::AgentSite;
use workrail_model::error::{ErrorEnvelope, TeamSuggestion};
use workrail_model::id::RunId;

use super::BoxedError;

/// A suggestion for agents, and different ones for other readers if needed.
pub(crate) struct Advice {
    pub(super) suggestion: String,
    pub(super) for_people: Option<String>,
    /// Where it is missing, the others name nothing that needs a shell.
    pub(super) in_team: Option<TeamSuggestion>,
}

impl From<&str> for Advice {
    fn from(suggestion: &str) -> Self {
        Self::from(suggestion.to_owned())
    }
}

impl From<String> for Advice {
    fn from(suggestion: String) -> Self {
        Self { suggestion, for_people: None, in_team: None }
    }
}

impl Advice {
    /// Try again after `fix`, a clause such as "Free some disk space".
    pub(super) fn repeat_after(fix: &str) -> Self {
        let admin = for_an_admin(&clause(fix));
        Self {
            suggestion: format!("{fix}, then send the same call again with the same arguments."),
            for_people: Some(format!("{fix}, then run the command again.")),
            in_team: Some(TeamSuggestion {
                suggestion: format!("{admin} Then send the same call again with the same arguments."),
                for_people: Some(format!("{admin} Then try again.")),
                run: None,
            }),
        }
    }

    /// The same, if no agent should try the fix itself.
    pub(super) fn repeat_after_the_user(fix: &str) -> Self {
        let again = "Then send the same call again with the same arguments.";
        Self { suggestion: format!("Tell the user: {}. {again}", clause(fix)), ..Self::repeat_after(fix) }
    }

    /// Try again in a moment; `otherwise` says in whole sentences what else helps.
    pub(super) fn repeat_soon(otherwise: &str) -> Self {
        let persists = if otherwise.is_empty() { "" } else { " If it persists, tell an admin of the team." };
        Self {
            suggestion: format!("Send the same call again in a moment. {otherwise}").trim_end().to_owned(),
            for_people: Some(format!("Run the command again in a moment. {otherwise}").trim_end().to_owned()),
            in_team: Some(TeamSuggestion {
                suggestion: format!("Send the same call again in a moment.{persists}"),
                for_people: Some(format!("Try again in a moment.{persists}")),
                run: None,
            }),
        }
    }

    /// Try again in a moment; `fix` begins in lower case, has no final full stop, and is for the user.
    pub(super) fn repeat_soon_or(fix: &str) -> Self {
        let again = "Send the same call again in a moment.";
        Self {
            suggestion: format!("{again} If it persists, tell the user: {fix}."),
            ..Self::repeat_soon(&format!("If it persists: {fix}."))
        }
    }

    /// What only the user can do, or must know: `what` begins in lower case and has no final full stop.
    pub(super) fn for_the_user(what: &str) -> Self {
        Self {
            suggestion: format!("Tell the user: {what}."),
            for_people: Some(format!("{}.", sentence(what))),
            in_team: Some(team(for_an_admin(what))),
        }
    }

    /// Other words for members of a team.
    pub(super) fn in_team(self, suggestion: impl Into<String>) -> Self {
        Self { in_team: Some(team(suggestion.into())), ..self }
    }

    /// For members of a team this needs an admin: `what` begins in lower case and has no final full stop.
    pub(super) fn by_an_admin(self, what: &str) -> Self {
        self.in_team(for_an_admin(what))
    }

    /// Other words for people in a team's console; their agents read the same as others.
    pub(super) fn for_members(self, people: &str) -> Self {
        let team = TeamSuggestion {
            suggestion: self.suggestion.clone(),
            for_people: Some(people.to_owned()),
            run: None,
        };
        Self { in_team: Some(team), ..self }
    }

    /// Agents of a team name the page of this run in the team's console.
    pub(super) fn on_the_page_of(mut self, run: RunId) -> Self {
        if let Some(team) = &mut self.in_team {
            team.run = Some(run);
        }
        self
    }

    /// A first sentence for all readers.
    pub(super) fn after(self, first: &str) -> Self {
        let preceded = |text: String| format!("{first} {text}");
        Self {
            suggestion: preceded(self.suggestion),
            for_people: self.for_people.map(preceded),
            in_team: self.in_team.map(|team| TeamSuggestion {
                suggestion: preceded(team.suggestion),
                for_people: team.for_people.map(preceded),
                run: team.run,
            }),
        }
    }

    /// A last sentence for agents only.
    pub(super) fn for_agents(self, last: &str) -> Self {
        self.for_each_agent(last, last)
    }

    /// The same, with what the error tells agents already.
    pub(super) fn for_agents_as_in(self, error: &ErrorEnvelope) -> Self {
        let in_team = error.in_team.as_ref().map_or(&error.suggestion, |team| &team.suggestion);
        self.for_each_agent(&error.suggestion, in_team)
    }

    fn for_each_agent(self, last: &str, last_in_team: &str) -> Self {
        Self {
            suggestion: format!("{} {last}", self.suggestion),
            // Without words of their own, people would read the sentence too.
            for_people: Some(self.for_people.unwrap_or(self.suggestion)),
            in_team: self.in_team.map(|team| TeamSuggestion {
                suggestion: format!("{} {last_in_team}", team.suggestion),
                for_people: Some(team.for_people.unwrap_or(team.suggestion)),
                run: team.run,
            }),
        }
    }
}

/// What only someone with a shell on the server's machine can do: `what` begins in lower case and has no final full stop.
pub(super) fn for_an_admin(what: &str) -> String {
    format!("Tell an admin of the team, who needs a shell on the server's machine: {what}.")
}

fn team(suggestion: String) -> TeamSuggestion {
    TeamSuggestion { suggestion, for_people: None, run: None }
}

/// The error as a caller at this place reads it.
pub(crate) fn at_site(mut error: BoxedError, site: &AgentSite) -> BoxedError {
    match site {
        AgentSite::Local => {}
        AgentSite::Remote { .. } => {
            if let Some(TeamSuggestion { mut suggestion, for_people, run }) = error.in_team.take() {
                error.suggestion_for_people = Some(for_people.unwrap_or_else(|| suggestion.clone()));
                if let Some(page) = run.and_then(|run| site.run_page(run)) {
                    suggestion.push_str(&format!(" The run's page: {page}"));
                }
                error.suggestion = suggestion;
            }
        }
    }
    error
}

pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The opposite of [`sentence`].
pub(super) fn clause(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
