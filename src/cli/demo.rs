//! `pandarium demo`: a service and a small site, and each call of the main job.

use super::CliError;
use crate::config::Config;

pub async fn run(_config: Config) -> Result<(), CliError> {
    Err(CliError::NotInThisBuild("demo"))
}
