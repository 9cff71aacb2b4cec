//! `pandarium healthcheck`: for a container's health check, which has no curl.

use std::time::Duration;

use super::client::{Client, ClientError};
use super::{CliError, output};
use crate::api::system::Health;
use crate::config::Config;
use crate::store::data_dir::{holder, local_url};

/// Below the 3 s that a container gives its check.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks `/readyz`, which needs no token: the recorded URL, else the configured address.
///
/// Errors end with 1 whatever they are: a health check has no other codes.
pub async fn run(config: &Config) -> Result<(), CliError> {
    match ready(config).await {
        Ok(health) => output::line(&health.status),
        Err(error) => Err(CliError::Unhealthy { source: Box::new(error) }),
    }
}

async fn ready(config: &Config) -> Result<Health, CliError> {
    let recorded = holder(&config.data_dir)?.and_then(|holder| holder.url);
    let url = recorded.or_else(|| (config.listen.port() != 0).then(|| local_url(config.listen)));
    let url = url.ok_or_else(|| ClientError::NotRunning { data_dir: config.data_dir.clone() })?;
    Ok(Client::new(&url, None)?.get("/readyz", LIMIT).await?)
}
