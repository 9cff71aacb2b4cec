//! One deadline per call: made in `api`, passed all the way down, never extended.

use std::time::{Duration, Instant};

/// A moment on the monotonic clock by which a call must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    started: Instant,
    at: Instant,
}

impl Deadline {
    /// A deadline `timeout` from now.
    pub fn after(timeout: Duration) -> Self {
        let started = Instant::now();
        Self { started, at: started + timeout }
    }

    /// The moment itself, for `tokio::time::timeout_at`.
    pub fn at(self) -> Instant {
        self.at
    }

    /// What the call was given in all.
    pub fn timeout(self) -> Duration {
        self.at - self.started
    }

    pub fn elapsed(self) -> Duration {
        self.started.elapsed()
    }

    /// What is left; zero once it has passed.
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }

    /// The earlier of this deadline and `limit` from now: a step's own limit inside the call's.
    pub fn min_after(self, limit: Duration) -> Self {
        Self { started: self.started, at: self.at.min(Instant::now() + limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_never_outlives_the_call() {
        let call = Deadline::after(Duration::from_millis(50));
        assert_eq!(call.min_after(Duration::from_secs(9)).at(), call.at());
        assert!(call.min_after(Duration::from_millis(1)).at() < call.at());
        assert!(Deadline::after(Duration::ZERO).has_passed());
    }
}
