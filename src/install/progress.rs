//! What an install tells its caller while it runs.

/// A step of an install, in order. `Waiting` occurs only while another install holds the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Resolving,
    Downloading,
    Verifying,
    CheckingVersion,
    Installing,
}

/// Receives the steps of an install. Calls come often, so an implementation throttles what it shows.
pub trait Progress: Send + Sync {
    fn phase(&self, phase: Phase);

    /// Bytes downloaded so far, and the expected total where it is known.
    fn bytes(&self, done: u64, total: Option<u64>);
}

/// Shows nothing.
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _phase: Phase) {}

    fn bytes(&self, _done: u64, _total: Option<u64>) {}
}
