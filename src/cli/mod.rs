//! See the crate documentation.
pub mod setup;
