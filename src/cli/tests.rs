use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("pandarium").chain(words.iter().copied()))
}

fn refusal(words: &[&str]) -> ErrorKind {
    parse(words).err().unwrap().kind()
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    for words in [["--data-dir=/x", "status"], ["status", "--data-dir=/x"]] {
        let given = parse(&words).unwrap().global.given;
        let given: Vec<_> = given.iter().map(|(key, text)| (key.name, text.as_str())).collect();
        assert_eq!(given, [("data_dir", "/x")]);
    }
}

#[test]
fn service_options_belong_to_serve_and_config_only() {
    for command in ["serve", "config"] {
        assert!(parse(&[command, "--listen=127.0.0.1:0", "--fetch-workers", "3", "--allow-private=a:1"]).is_ok());
    }
    for command in ["status", "token", "healthcheck", "openapi", "demo"] {
        assert_eq!(refusal(&[command, "--listen=127.0.0.1:0"]), ErrorKind::UnknownArgument, "{command}");
    }
}

#[test]
fn what_is_not_a_command_is_a_usage_error() {
    assert_eq!(refusal(&["fly"]), ErrorKind::InvalidSubcommand);
    assert_eq!(refusal(&["fetch"]), ErrorKind::MissingRequiredArgument);
    assert_eq!(refusal(&["fetch", "http://a.example/", "--format=pdf"]), ErrorKind::InvalidValue);
    assert_eq!(refusal(&["fetch", "http://a.example/", "--header=none"]), ErrorKind::ValueValidation);
    assert_eq!(parse(&["fly"]).err().unwrap().exit_code(), 2);
}

#[test]
fn help_names_the_default_and_the_variable_of_each_service_option() {
    let mut command = Cli::command();
    let help = command.find_subcommand_mut("serve").unwrap().render_long_help().to_string();
    for part in ["--fetch-timeout-s", "90, or max_timeout_s", "PANDARIUM_FETCH_TIMEOUT_S", "listening on http://"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
