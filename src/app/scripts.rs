//! Scripts: trusted programs that drive an engine of their own. Off unless the configuration turns them on.

use tokio::sync::Semaphore;

use crate::browser::BrowserError;
use crate::browser::script::{Finished, Script, ScriptRunner};
use crate::domain::deadline::Deadline;

/// A script was not run, or its process was lost.
#[derive(Debug, thiserror::Error)]
pub enum ScriptsError {
    #[error("scripts are not enabled")]
    Off,
    #[error("{limit} scripts are running already")]
    TooMany { limit: usize },
    #[error(transparent)]
    Browser(#[from] BrowserError),
}

/// The use case.
pub struct Scripts {
    /// None where they are off.
    runner: Option<ScriptRunner>,
    limit: usize,
    places: Semaphore,
}

impl Scripts {
    /// At most `limit` scripts run at once; the next one is refused.
    pub fn new(runner: Option<ScriptRunner>, limit: usize) -> Self {
        Self { runner, limit, places: Semaphore::new(limit) }
    }

    /// Runs a script to its end. A caller that goes away ends it.
    pub async fn run(&self, script: &Script, deadline: Deadline) -> Result<Finished, ScriptsError> {
        let runner = self.runner.as_ref().ok_or(ScriptsError::Off)?;
        let _place = self.places.try_acquire().map_err(|_| ScriptsError::TooMany { limit: self.limit })?;
        Ok(runner.run(script, deadline).await?)
    }
}
