//! Sees to it that there is an engine before a service starts.

use super::setup::{self, Build};
use super::{CliError, output};
use crate::config::{Config, InstallPolicy, LightpandaSource};
use crate::install::{self, FindError, InstallError};
use crate::store::data_dir;

/// Installs the configured build where no engine is found at all, and says so. A configured one that is missing stays
/// missing, and a failed install is not the end: the service tells of it, and takes up an engine that comes later.
///
/// Errors: only a signal during the install, which is meant for the whole command.
pub async fn ensure(config: &Config) -> Result<(), CliError> {
    let (command, bin) = (config.lightpanda.command.as_deref(), config.data_dir.join("bin"));
    let found = install::find(command, &bin, config.lightpanda.search_path.as_deref());
    let may_install = config.lightpanda.install == InstallPolicy::Auto;
    match found {
        Err(FindError::NotFound) if may_install => {}
        Err(error) => {
            output::note(&format!("pandarium: {error}"));
            return Ok(());
        }
        Ok(_) => return Ok(()),
    }
    if let Err(error) = data_dir::prepare(&config.data_dir) {
        output::note(&format!("pandarium: {error}"));
        return Ok(());
    }
    output::note("pandarium: no Lightpanda found; installing it");
    let build = match config.lightpanda.source {
        LightpandaSource::Pypi => Build::Pinned,
        LightpandaSource::Stable => Build::Stable,
        LightpandaSource::Nightly => Build::Nightly,
    };
    let installer = build.installer(bin, config.lightpanda.release_url.clone());
    match setup::install(&installer).await {
        Ok(installed) => output::note(&format!("pandarium: {}", setup::summary(&installed))),
        Err(cancelled @ InstallError::Cancelled) => return Err(cancelled.into()),
        Err(error) => output::note(&format!("pandarium: {}", crate::telemetry::error_chain(&error))),
    }
    Ok(())
}
