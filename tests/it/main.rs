//! Integration tests.

mod golden;
mod scoring;
