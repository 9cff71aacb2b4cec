//! See the crate documentation.

pub mod data_dir;
