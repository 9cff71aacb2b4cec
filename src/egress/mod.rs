//! What may leave: the resolver, the pinning proxy, and Lightpanda's own network flags.
//!
//! Which addresses are allowed is decided in [`crate::domain::network`] only; this module asks it at the moment of use.

pub mod flags;
pub mod outlet;
pub mod proxy;
pub mod resolver;
