//! `pandarium token`: where the tokens are. The secret itself only on request.

use clap::Args;

use super::{CliError, output};
use crate::config::Config;
use crate::store::data_dir::tokens::{TokenSource, Tokens, approver_token_path, auth_header_path, token_path};
use crate::store::data_dir::{self, holder, local_url};

#[derive(Args, Clone, Debug)]
pub struct TokenArguments {
    /// Make the tokens that are missing; a running service is not needed
    #[arg(long)]
    init: bool,

    /// Print the agent's token itself, and nothing else
    #[arg(long)]
    show: bool,
}

pub fn run(config: &Config, arguments: &TokenArguments) -> Result<(), CliError> {
    let tokens = tokens(config, arguments.init)?;
    if arguments.show {
        return output::line(tokens.agent.expose());
    }
    output::line(&places(config)?)
}

fn tokens(config: &Config, init: bool) -> Result<Tokens, CliError> {
    let (dir, agent, approver) = (&config.data_dir, &config.token, &config.approver_token);
    if !init {
        return Ok(Tokens::load(dir, agent, approver)?);
    }
    data_dir::prepare(dir)?;
    Ok(Tokens::init(dir, agent, approver)?)
}

fn places(config: &Config) -> Result<String, CliError> {
    let dir = &config.data_dir;
    let url = holder(dir)?.and_then(|holder| holder.url).unwrap_or_else(|| local_url(config.listen));
    let header = auth_header_path(dir).display().to_string();
    Ok(format!(
        "agent token     {}\napprover token  {}\nheader file     {header}\n\n{}",
        place(&config.token, &token_path(dir).display().to_string()),
        place(&config.approver_token, &approver_token_path(dir).display().to_string()),
        example(&header, &url),
    ))
}

fn place(source: &TokenSource, own: &str) -> String {
    match source {
        TokenSource::DataDir => own.to_owned(),
        TokenSource::File(path) => path.display().to_string(),
        TokenSource::Value(_) => "set in the configuration".to_owned(),
    }
}

fn example(header: &str, url: &str) -> String {
    format!("curl -H @{} '{url}/v1/fetch?url=https://example.com/'", quoted(header))
}

/// A path as one word of a shell.
pub fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_command_that_a_shell_takes() {
        let command = example("/home/me/auth.header", "http://127.0.0.1:7878");
        assert_eq!(command, "curl -H @/home/me/auth.header 'http://127.0.0.1:7878/v1/fetch?url=https://example.com/'");
        assert_eq!(quoted("/home/it's me/x"), r"'/home/it'\''s me/x'");
    }
}
