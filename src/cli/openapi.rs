//! `pandarium openapi`: the document that `/openapi.json` answers with.

use super::{CliError, output};
use crate::api::openapi::document_json;

pub fn run() -> Result<(), CliError> {
    output::line(document_json().trim_end())
}
