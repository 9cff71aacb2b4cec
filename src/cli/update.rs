//! What `pandarium setup` and `pandarium update` share: one build into the data directory.

use super::setup::{self, Build};
use super::{CliError, output};
use crate::config::Config;
use crate::store::data_dir;

pub async fn run(config: &Config, build: Build) -> Result<(), CliError> {
    data_dir::prepare(&config.data_dir)?;
    let installer = build.installer(config.data_dir.join("bin"), config.lightpanda.release_url.clone());
    let installed = setup::install(&installer).await?;
    output::line(&setup::summary(&installed))
}
