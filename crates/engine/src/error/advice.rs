//! What to do next, for each of the two readers of an error: an agent, which sends calls, and a person, who runs
//! commands.

/// A suggestion for agents, and a different one for people if needed.
pub(crate) struct Advice {
    pub(super) suggestion: String,
    pub(super) for_people: Option<String>,
}

impl From<&str> for Advice {
    fn from(suggestion: &str) -> Self {
        Self { suggestion: suggestion.to_owned(), for_people: None }
    }
}

impl From<String> for Advice {
    fn from(suggestion: String) -> Self {
        Self { suggestion, for_people: None }
    }
}

impl Advice {
    /// Try again after `fix`, a clause such as "Free some disk space".
    pub(super) fn repeat_after(fix: &str) -> Self {
        Self {
            suggestion: format!("{fix}, then send the same call again with the same arguments."),
            for_people: Some(format!("{fix}, then run the command again.")),
        }
    }

    /// Try again in a moment; `otherwise` says in whole sentences what else helps.
    pub(super) fn repeat_soon(otherwise: &str) -> Self {
        Self {
            suggestion: format!("Send the same call again in a moment. {otherwise}").trim_end().to_owned(),
            for_people: Some(format!("Run the command again in a moment. {otherwise}").trim_end().to_owned()),
        }
    }

    /// What only the user can do, or must know: `what` begins in lower case and has no final full stop.
    pub(super) fn for_the_user(what: &str) -> Self {
        Self {
            suggestion: format!("Tell the user: {what}."),
            for_people: Some(format!("{}.", sentence(what))),
        }
    }

    /// A first sentence for both readers.
    pub(super) fn after(self, first: &str) -> Self {
        Self {
            suggestion: format!("{first} {}", self.suggestion),
            for_people: self.for_people.map(|text| format!("{first} {text}")),
        }
    }

    /// A last sentence for agents only.
    pub(super) fn for_agents(self, last: &str) -> Self {
        Self { suggestion: format!("{} {last}", self.suggestion), ..self }
    }
}

pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
