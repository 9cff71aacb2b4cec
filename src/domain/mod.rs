//! Values and decisions: no I/O, no async.

pub mod approval;
pub mod clock;
pub mod deadline;
pub mod ids;
pub mod network;
pub mod secret;
