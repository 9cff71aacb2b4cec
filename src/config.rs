//! See the crate documentation.

/// The checked configuration.
pub struct Config {}
