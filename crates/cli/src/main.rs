//! The program: commands, output, and the only wiring of adapters.

mod command_groups;
mod config;
mod confirm;
mod console;
mod demo;
mod doctor;
mod explain;
mod flags;
mod hook;
mod install;
mod layout;
mod mcp_server;
mod name;
mod outcome;
mod output;
mod plugin;
mod presence;
mod runs;
mod sessions;
mod settings;
mod setup;
mod store;
mod store_kind;
mod team;
mod times;
mod trust;
mod upkeep;
mod version;
mod wiring;
mod workflows;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use workrail_model::loopback::LoopbackAddress;

use crate::outcome::{Failure, Format};

/// Keeps AI coding agents on the rails: one step at a time, everything durable.
///
/// Without a command, it shows the status, as `workrail status` does.
#[derive(Debug, Parser)]
#[command(version = version::LONG, about)]
struct Arguments {
    /// Use this settings file instead of the default one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<Utf8PathBuf>,
    /// Use this store instead of the one that the settings name: `postgres://USER@HOST/DATABASE`.
    #[arg(long, global = true, value_name = "ADDRESS")]
    store: Option<String>,
    /// When to use colours.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = output::Colours::Auto, hide_possible_values = false)]
    color: output::Colours,
    /// Print long output directly instead of through a pager.
    #[arg(long, global = true)]
    no_pager: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Run(runs::RunCommand),
    /// Find, write and check workflows
    #[command(subcommand, visible_alias = "workflows")]
    Workflow(workflows::WorkflowCommand),
    /// List, keep, delete and move sessions
    #[command(subcommand, visible_alias = "sessions")]
    Session(sessions::SessionCommand),
    /// Check, back up, repair and clean the data directory; manage its keys
    #[command(subcommand)]
    Store(upkeep::UpkeepCommand),
    /// Set up everything that an agent needs, in the clients on this machine
    Install(install::InstallArguments),
    /// Remove what `install` wrote
    Uninstall(install::UninstallArguments),
    /// Trust the commands that a project defines for workflow checks
    #[command(after_help = format!(
        "Shows which command each check would run, and asks you to type the name of the folder. What you trust is \
         exactly this workspace, version of the workflow, command line, program and directory; if any of these \
         changes, you are asked again.\n\n{}\n\nExamples:\n  workrail trust\n  workrail trust team.fix\n  workrail trust --run \
         amber-falcon", outcome::EXIT_CODES
    ))]
    Trust(trust::TrustArguments),
    /// Write plugins for agents' hosts
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Give people and agents access to a team's server
    #[command(subcommand)]
    Team(team::TeamCommand),
    /// Print shell completions, or write the manual pages
    #[command(subcommand)]
    Setup(setup::SetupCommand),
    /// Check the whole installation and print what to fix
    Doctor(doctor::DoctorArguments),
    /// Show or change settings
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Explain a code: what it means, why it matters, what to do
    #[command(after_help = format!(
        "Examples:\n  workrail explain TOKEN_BAD_SIGNATURE\n  workrail explain unknown-field\n  workrail explain --list\n\n{}", outcome::EXIT_CODES
    ))]
    Explain(explain::ExplainArguments),
    /// Run a whole workflow through the real server in a temporary directory
    #[command(after_help = "Example: workrail demo")]
    Demo,
    /// Print the names that fit the last word, for completion scripts
    #[command(hide = true)]
    Complete {
        /// What was typed after the program's name.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Open the console: see every run in a browser, approve, reject and answer
    #[command(
        after_help = "The console listens on loopback only. The printed address holds a code that lets one browser in.\n\n\
                            Examples:\n  workrail console\n  workrail console --port 4717 --no-open"
    )]
    Console {
        /// The port on localhost. Default: 4717, or a free one if that is taken.
        #[arg(long, value_name = "N")]
        port: Option<u16>,
        /// Print the address only; do not open a browser.
        #[arg(long)]
        no_open: bool,
    },
    /// Handle a hook of an agent's host: reads JSON from standard input and prints the answer
    #[command(
        after_help = "Hosts call this themselves once `workrail install` has configured them. It always exits with \
                            0, and prints `{}` when there is nothing to report or an error occurs.\n\nHOST: claude-code, codex, \
                            copilot, vscode, gemini, cursor, opencode. EVENT: as the host calls it. `workrail hook \
                            opencode plugin` prints the plugin for opencode.\n\nExample: workrail hook claude-code \
                            Stop"
    )]
    Hook {
        /// The program that the agent runs in.
        host: String,
        /// What happened, as the host calls it.
        event: String,
    },
    /// Run a team's server: agents over MCP, people in the browser, each with a token
    #[command(
        after_help = "Agents use URL/mcp, people open URL in a browser. Everybody needs a token: `workrail team token create`. An address that other machines reach needs a \
                            certificate (--tls-cert, --tls-key) or a proxy in front that terminates TLS (--behind-proxy). The server keeps no state of its own: run as many as you \
                            like on one database. GET /healthz and /readyz are for load balancers, /metrics is for Prometheus.\n\n\
                            Examples:\n  workrail serve --listen 127.0.0.1:8080\n  workrail serve --listen 0.0.0.0:443 \
                            --public-url https://workrail.example.com --tls-cert cert.pem --tls-key key.pem\n  workrail serve \
                            --listen 10.0.0.5:8080 --public-url https://workrail.example.com --behind-proxy"
    )]
    Serve(team::server::ServeArguments),
    /// Serve agents over MCP on standard input and output, or over HTTP on loopback
    #[command(
        after_help = "Clients start the server themselves once `workrail install` has configured them. Over \
                            HTTP, requests must carry the secret that `workrail store keys http-secret` prints.\n\n\
                            Examples:\n  workrail mcp\n  workrail mcp --http 127.0.0.1:8765"
    )]
    Mcp {
        /// Serve Streamable HTTP at http://127.0.0.1:PORT/mcp instead. Loopback only; port 0 picks a free port.
        #[arg(long, value_name = "127.0.0.1:PORT")]
        http: Option<LoopbackAddress>,
        /// Serve HTTP without a secret. Every user and program on this machine can then read goals, notes and tokens,
        /// complete steps and answer questions.
        #[arg(long, requires = "http")]
        no_auth: bool,
    },
}

fn main() -> ExitCode {
    // Hosts wait for hooks, so nothing else is set up for them.
    if let Some((host, event)) = hook::plain_arguments() {
        return hook::run(host, event);
    }
    // Our own process that runs a check; never typed by a user.
    if workrail_host::checks::is_supervisor() {
        return workrail_host::checks::supervise();
    }
    let parsed = command_groups::program::<Arguments>().try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(error),
    };
    settings::set_arguments(arguments.config, arguments.store);
    wiring::log_to_stderr();
    output::set_colours(arguments.color);
    let is_long = arguments.command.as_ref().is_some_and(Command::is_long);
    let pager = (is_long && !arguments.no_pager).then(output::page).flatten();
    let ended = arguments.command.map_or_else(runs::status, run);
    output::flush();
    if let Some(pager) = pager {
        // If waiting for the pager fails, it has ended.
        let _ = pager.finish();
    }
    ended
}

impl Command {
    /// Whether it may print more than one screen without asking anything.
    fn is_long(&self) -> bool {
        match self {
            Self::Run(command) => command.is_long(),
            Self::Workflow(command) => command.is_long(),
            Self::Session(command) => command.is_long(),
            Self::Explain(_) => true,
            Self::Store(_)
            | Self::Install(_)
            | Self::Uninstall(_)
            | Self::Plugin(_)
            | Self::Trust(_)
            | Self::Team(_)
            | Self::Serve(_)
            | Self::Setup(_)
            | Self::Doctor(_)
            | Self::Config(_)
            | Self::Complete { .. }
            | Self::Demo
            | Self::Console { .. }
            | Self::Hook { .. }
            | Self::Mcp { .. } => false,
        }
    }
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Run(command) => runs::run(command),
        Command::Workflow(command) => workflows::run(command),
        Command::Session(command) => sessions::run(command),
        Command::Store(command) => upkeep::run(command),
        Command::Install(arguments) => install::install(&arguments),
        Command::Uninstall(arguments) => install::uninstall(&arguments),
        Command::Plugin(command) => plugin::run(&command),
        Command::Trust(arguments) => trust::run(arguments),
        Command::Team(command) => team::run(command),
        Command::Serve(arguments) => team::server::run(&arguments),
        Command::Setup(command) => setup::run(command, command_groups::program::<Arguments>()),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Config(command) => config::run(command),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Complete { words } => setup::complete::run(&words, &command_groups::program::<Arguments>()),
        Command::Demo => demo::run(),
        Command::Console { port, no_open } => console::run(port, console::BrowserLaunch::unless(no_open)),
        Command::Hook { host, event } => hook::run(host, event),
        Command::Mcp { http: None, .. } => mcp_server::stdio(),
        Command::Mcp { http: Some(address), no_auth } => mcp_server::http(address, no_auth),
    }
}

/// Prints help and version unchanged, and a usage error in the requested format.
fn not_parsed(error: clap::Error) -> ExitCode {
    let typed: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let error = command_groups::with_suggestion(error, &Arguments::command(), &typed);
    let mut options = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    if !error.use_stderr() {
        output::rendered(error.render().ansi().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    if !options.any(|argument| argument == "--json") {
        error.exit();
    }
    let message = error.render().to_string().trim_end().to_owned();
    outcome::finish(Err(Failure::Usage(message)), Format::Json)
}
