//! What every test stands on.

pub mod answer;
pub mod engine;
pub mod process;
pub mod service;
pub mod site;

use std::time::{Duration, Instant};

/// Between two looks at something that another process is about to do.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits until `look` gives a value; fails the test, naming `what`, when it has not within `limit`.
pub async fn eventually<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits until `is` holds.
pub async fn until(what: &str, limit: Duration, mut is: impl FnMut() -> bool) {
    eventually(what, limit, async || is().then_some(())).await;
}
