//! Parses the command line and runs one command.

use std::process::ExitCode;

use clap::Parser;
use pandarium::cli::{self, Cli};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => ExitCode::from(runtime.block_on(cli::run(cli))),
        Err(error) => {
            cli::output::note(&format!("pandarium: the runtime cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}
