//! Whole installs: from a local server, and from the registry through the real pip.

mod concurrency;
mod release;
pub(super) mod support;
mod update;
mod wheel;
