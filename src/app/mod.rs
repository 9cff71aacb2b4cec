//! Use cases: the order of steps, and who owns what meanwhile.

pub mod artifacts;
pub mod fetch;
pub mod scripts;
