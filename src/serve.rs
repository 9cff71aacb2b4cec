//! The only wiring: build, bind, serve, drain.

use std::net::SocketAddr;

use crate::config::Config;

/// The service could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {}

/// A service that listens.
pub struct Running {
    address: SocketAddr,
}

/// Starts the service: returns once it listens.
pub async fn start(_config: Config) -> Result<Running, ServeError> {
    Ok(Running { address: SocketAddr::from(([127, 0, 0, 1], 0)) })
}

impl Running {
    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: no new work, calls in flight end or get a typed error within 10 s, every child is reaped.
    pub async fn stop(self) -> Result<(), ServeError> {
        Ok(())
    }

    /// Runs until a background task dies or the process is told to stop.
    pub async fn wait(self) -> Result<(), ServeError> {
        Ok(())
    }
}
