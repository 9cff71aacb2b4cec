//! The commands. Those that need the service speak HTTP to it.

pub mod client;
mod config;
pub mod demo;
mod engine;
mod error;
mod fetch;
mod healthcheck;
mod interrupt;
mod openapi;
pub mod output;
mod serve;
pub mod setup;
mod status;
mod token;
mod update;

use clap::{Parser, Subcommand};

pub use error::{CliError, exit_code_of};

use crate::config::{self as configuration, Environment, GlobalFlags, Loaded, ServiceFlags};

const EXAMPLES: &str = "\
Examples:
  pandarium demo                              see it work, in one command
  pandarium fetch https://example.com/        one page as Markdown
  pandarium serve                             the service on 127.0.0.1:7878
  pandarium token                             how to call it with curl

Every option is also an environment variable (PANDARIUM_...) and a key of the configuration file.";

const FETCH_EXAMPLES: &str = "\
Examples:
  pandarium fetch https://example.com/
  pandarium fetch https://example.com/ --format links --json
  pandarium fetch https://example.com/list --wait-for-selector '#list li' --timeout-ms 20000
  pandarium fetch https://example.com/ --header 'Accept-Language: de' --cookie consent=no

Exit codes:
  0 ok  1 other  2 usage  3 navigation or content  4 approval or refusal  5 captcha or consent
  6 engine or pool  7 deadline exceeded";

const SERVE_EXAMPLES: &str = "\
Examples:
  pandarium serve
  pandarium serve --listen 127.0.0.1:0 --data-dir /tmp/trial
  PANDARIUM_ALLOW_PRIVATE=127.0.0.1:8080 pandarium serve

The first line on standard output is `listening on http://HOST:PORT`; the log goes to standard error.";

const CONFIG_EXAMPLES: &str = "\
Examples:
  pandarium config
  pandarium config > my.toml && pandarium serve --config my.toml";

const TOKEN_EXAMPLES: &str = "\
Examples:
  pandarium token                 where the tokens are, and how to use them
  pandarium token --init          make those that are missing, before a service starts
  TOKEN=$(pandarium token --show)";

/// A browser over plain HTTP for agents and scripts
#[derive(Parser)]
#[command(name = "pandarium", version, after_help = EXAMPLES, max_term_width = 120)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service until SIGINT or SIGTERM
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServiceFlags),
    /// Start a service and a small site, and show each call of the main job
    Demo,
    /// Read one page, through the running service or through one that runs for this call
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch(Box<fetch::FetchArguments>),
    /// Install Lightpanda into the data directory
    Setup(setup::SetupArguments),
    /// Replace the installed Lightpanda by a later build
    Update(setup::UpdateArguments),
    /// What the running service does
    Status(status::StatusArguments),
    /// Where the tokens are, and how to call the service with them
    #[command(after_help = TOKEN_EXAMPLES)]
    Token(token::TokenArguments),
    /// The configuration in force, secrets masked, each value with its source
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(ServiceFlags),
    /// The OpenAPI document of the service
    Openapi,
    /// Exit 0 if the running service can read pages, else 1
    Healthcheck,
}

/// Runs the command and tells of its failure. Returns the exit code.
pub async fn run(cli: Cli) -> u8 {
    let json = cli.command.answers_in_json();
    match dispatch(cli).await {
        Ok(()) => 0,
        Err(error) => {
            error.report(json);
            error.exit_code()
        }
    }
}

async fn dispatch(cli: Cli) -> Result<(), CliError> {
    let load = |service| load(cli.global, service);
    match cli.command {
        Command::Serve(flags) => serve::run(load(flags)?.config).await,
        Command::Demo => demo::run(load(ServiceFlags::default())?.config).await,
        Command::Fetch(arguments) => {
            let loaded = load(ServiceFlags::default())?;
            fetch::run(&loaded.config, &loaded.log_or("error"), &arguments).await
        }
        Command::Setup(arguments) => update::run(&load(ServiceFlags::default())?.config, arguments.channel).await,
        Command::Update(arguments) => update::run(&load(ServiceFlags::default())?.config, arguments.channel).await,
        Command::Status(arguments) => status::run(&load(ServiceFlags::default())?.config, &arguments).await,
        Command::Token(arguments) => token::run(&load(ServiceFlags::default())?.config, &arguments),
        Command::Config(flags) => config::run(&load(flags)?),
        Command::Openapi => openapi::run(),
        Command::Healthcheck => healthcheck::run(&load(ServiceFlags::default())?.config).await,
    }
}

fn load(global: GlobalFlags, service: ServiceFlags) -> Result<Loaded, CliError> {
    Ok(configuration::load(global, service, &Environment::of_process())?)
}

impl Command {
    fn answers_in_json(&self) -> bool {
        match self {
            Self::Fetch(arguments) => arguments.json,
            Self::Status(arguments) => arguments.json,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
