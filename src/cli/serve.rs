//! `pandarium serve`: the service in the foreground.

use super::{CliError, engine, output};
use crate::config::Config;
use crate::{serve, telemetry};

pub async fn run(config: Config) -> Result<(), CliError> {
    telemetry::init_logging(&config.log.filter, config.log.format)?;
    engine::ensure(&config).await?;
    let stop = serve::stop_signal()?;
    let service = serve::start(config).await?;
    // A service whose starter has closed the pipe serves all the same.
    let told = output::line(&format!("listening on http://{}", service.address()));
    match told {
        Err(CliError::OutputClosed) | Ok(()) => Ok(service.run_until(stop).await?),
        Err(error) => {
            service.stop().await?;
            Err(error)
        }
    }
}
