//! `/v1/fetch`.

mod content;
mod failures;
mod moves;
mod network;
mod options;
mod sharing;
mod stuck;
mod wait;
