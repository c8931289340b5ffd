//! Asks the user before something that cannot be undone.

use std::io::{BufRead, IsTerminal, stdin};

use crate::outcome::Failure;
use crate::output;

/// Whether the command line already said yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskFirst {
    /// `--yes`: a script has decided.
    Beforehand,
    AtTerminal,
}

impl AskFirst {
    /// From a command's `--yes` switch.
    pub(crate) fn unless(yes: bool) -> Self {
        if yes { Self::Beforehand } else { Self::AtTerminal }
    }
}

/// Continues only if the user types one of `answers`.
pub(crate) fn typed(asked: AskFirst, prompt: &str, answers: &[String]) -> Result<(), Failure> {
    if asked == AskFirst::Beforehand {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return Err(Failure::Call(
            "No terminal to ask for confirmation. Pass --yes to skip the question. Nothing was changed."
                .to_owned(),
        ));
    }
    output::line(prompt);
    let mut typed = String::new();
    stdin().lock().read_line(&mut typed).map_err(|error| Failure::Environment(error.to_string()))?;
    match answers.iter().any(|answer| answer == typed.trim()) {
        true => Ok(()),
        false => Err(Failure::Call("The confirmation did not match. Nothing was changed.".to_owned())),
    }
}
