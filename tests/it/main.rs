//! The service from outside: the real binary, a real Lightpanda, sites that the tests serve themselves.
#![cfg(test)]

mod api;
mod architecture;
mod artifacts;
mod bugs;
mod cli;
mod demo;
mod endurance;
mod fetch;
mod golden;
mod reading;
mod scoring;
mod scripts;
mod service;
mod support;
