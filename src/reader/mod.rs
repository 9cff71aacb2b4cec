//! See the crate documentation.

pub mod charset;
pub mod text_types;
pub mod window;
