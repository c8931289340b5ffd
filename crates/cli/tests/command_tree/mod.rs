//! The commands of the program, as its help lists them.

use workrail_testkit::home::Home;

/// The help of a command, as printed without a terminal.
pub(crate) fn help(command: &[String]) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    Home::new(env!("CARGO_BIN_EXE_workrail")).done(&words).out.trim_end().to_owned()
}

/// The commands inside a command, from its help: the indented lines between the usage and the options.
pub(crate) fn inner(command: &[String], help: &str) -> Vec<Vec<String>> {
    let listed = help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let listed = listed.take_while(|line| !matches!(*line, "Options:" | "Arguments:"));
    let names = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    names.map(|name| [command, &[name.to_owned()]].concat()).collect()
}
