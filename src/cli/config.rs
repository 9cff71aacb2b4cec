//! `pandarium config`: the configuration in force.

use super::{CliError, output};
use crate::config::Loaded;

pub fn run(loaded: &Loaded) -> Result<(), CliError> {
    output::line(loaded.to_toml().trim_end())
}
