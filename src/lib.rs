//! A browser over plain HTTP for agents and scripts.
//!
//! The map, and the one rule about it. Code calls to the right only:
//!
//! ```text
//! main -> cli, serve -> api -> app -> { browser, egress, reader, store } -> domain
//! ```
//!
//! * [`domain`] values and decisions; no I/O, no async.
//! * [`api`] HTTP: wire types, statuses, OpenAPI; one file a resource.
//! * [`app`] use cases: the order of steps.
//! * [`browser`] the port to the engines, and everything behind it.
//! * [`egress`] what may leave: the resolver, the pinning proxy, Lightpanda's network flags.
//! * [`reader`] HTML to main content to Markdown to a window of it; pure functions.
//! * [`install`] finds, downloads, verifies and replaces the Lightpanda binary.
//! * [`store`] the only module that names `sqlx`.
//! * [`cli`] the commands; they speak HTTP to the service.
//! * [`serve`] the only wiring: build, bind, serve, drain.

pub mod api;
pub mod app;
pub mod browser;
pub mod cli;
pub mod config;
pub mod domain;
pub mod egress;
pub mod install;
pub mod reader;
pub mod serve;
pub mod store;
pub mod telemetry;
