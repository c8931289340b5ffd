//! Asks the user before something that cannot be undone.

use std::io::{BufRead, IsTerminal, stdin};

use crate::outcome::Failure;
use crate::output;

/// Whether the user confirmed on the command line or must still be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserConfirmation {
    /// With `--yes`.
    Given,
    AskAtTerminal,
}

impl UserConfirmation {
    /// From a command's `--yes` switch.
    pub(crate) fn given_if(yes: bool) -> Self {
        if yes { Self::Given } else { Self::AskAtTerminal }
    }
}

/// Continues only if the user has confirmed, or types one of `answers` now.
pub(crate) fn confirm_by_typing(
    confirmation: UserConfirmation,
    prompt: &str,
    answers: &[String],
) -> Result<(), Failure> {
    if confirmation == UserConfirmation::Given {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return Err(Failure::Usage(
            "No terminal to ask for confirmation. Pass --yes to skip the question. Nothing was changed."
                .to_owned(),
        ));
    }
    // Not on standard output, which may be a pipe or expect JSON.
    output::notice(prompt);
    let mut typed = String::new();
    stdin().lock().read_line(&mut typed).map_err(|error| Failure::Environment(error.to_string()))?;
    match answers.iter().any(|answer| answer == typed.trim()) {
        true => Ok(()),
        false => Err(Failure::Usage("The confirmation did not match. Nothing was changed.".to_owned())),
    }
}
