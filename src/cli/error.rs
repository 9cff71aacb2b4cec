//! Why a command failed, how that is told, and its exit code.

use std::io;

use serde_json::json;

use super::client::ClientError;
use super::demo::DemoError;
use super::interrupt::Interrupt;
use super::output::{note, one_line};
use crate::api::problem::{ExitCode, ProblemDocument};
use crate::config::Faults;
use crate::install::InstallError;
use crate::serve::ServeError;
use crate::store::data_dir::DataDirError;
use crate::store::data_dir::tokens::TokenError;
use crate::telemetry::{TelemetryError, error_chain};

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(transparent)]
    Config(#[from] Faults),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Tokens(#[from] TokenError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Install(#[from] InstallError),

    #[error("the answer of the service cannot be understood: is it of another version?")]
    Answer {
        #[source]
        source: serde_json::Error,
    },

    #[error("cannot write to standard output")]
    Output {
        #[source]
        source: io::Error,
    },

    /// Whoever read the output has seen enough.
    #[error("standard output is closed")]
    OutputClosed,

    #[error("cannot watch for signals")]
    Signals {
        #[source]
        source: io::Error,
    },

    #[error("not healthy")]
    Unhealthy {
        #[source]
        source: Box<CliError>,
    },

    #[error("interrupted")]
    Interrupted(Interrupt),

    #[error(transparent)]
    Demo(#[from] DemoError),
}

/// With what the command line ends after this problem.
pub fn exit_code_of(problem: &ProblemDocument) -> u8 {
    problem.exit_code() as u8
}

impl CliError {
    pub fn exit_code(&self) -> u8 {
        let code = match self {
            Self::OutputClosed => ExitCode::Ok,
            Self::Config(_) => ExitCode::Usage,
            Self::Install(InstallError::Cancelled) => return Interrupt::Interrupted.exit_code(),
            Self::Install(_) | Self::Demo(DemoError::NoEngine(_) | DemoError::NotReady { .. }) => {
                ExitCode::EngineOrPool
            }
            Self::Client(ClientError::TimedOut { .. }) => ExitCode::Deadline,
            Self::Client(ClientError::Problem(problem)) => return exit_code_of(problem),
            Self::Interrupted(interrupt) => return interrupt.exit_code(),
            _ => ExitCode::Other,
        };
        code as u8
    }

    /// Tells of the failure on standard error: a sentence and a hint, or one JSON document.
    pub fn report(&self, json: bool) {
        match self {
            Self::OutputClosed | Self::Interrupted(_) => {}
            _ if json => note(&self.as_json()),
            _ => note(&self.as_text()),
        }
    }

    fn as_text(&self) -> String {
        match self {
            Self::Client(ClientError::Problem(problem)) => {
                let ProblemDocument { title, detail, code, hint, .. } = problem.as_ref();
                format!("pandarium: {title}: {} ({code})\nhint: {}", one_line(detail), one_line(hint))
            }
            _ => format!("pandarium: {}", error_chain(self)),
        }
    }

    /// The service's problem as it came, or a document that has the members `title`, `detail` and `exit_code`.
    fn as_json(&self) -> String {
        let document = match self {
            Self::Client(ClientError::Problem(problem)) => json!(problem),
            _ => json!({
                "title": "The command failed",
                "detail": error_chain(self),
                "exit_code": self.exit_code(),
            }),
        };
        format!("{document:#}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::api::problem::{Code, Problem};

    fn problem(code: Code) -> CliError {
        let document = Problem::new(code, "It went\nwrong \u{1b}[2J.").with("field", "url").document("/v1/fetch", "id");
        ClientError::Problem(Box::new(document)).into()
    }

    #[test]
    fn a_problem_ends_with_the_exit_code_of_its_code() {
        for (code, exit_code) in [
            (Code::InvalidField, 2),
            (Code::NavigationFailed, 3),
            (Code::NetworkBlocked, 4),
            (Code::PoolExhausted, 6),
            (Code::DeadlineExceeded, 7),
            (Code::Internal, 1),
        ] {
            assert_eq!(problem(code).exit_code(), exit_code, "{code}");
        }
    }

    #[test]
    fn a_person_reads_a_sentence_and_a_hint() {
        let text = problem(Code::DeadlineExceeded).as_text();
        let hint = Code::DeadlineExceeded.row().hint;
        assert_eq!(text, format!("pandarium: Deadline exceeded: It went wrong [2J. (deadline_exceeded)\nhint: {hint}"));
    }

    #[test]
    fn a_program_reads_the_problem_itself() {
        let document: Value = serde_json::from_str(&problem(Code::InvalidField).as_json()).unwrap();
        assert_eq!((&document["code"], &document["field"]), (&json!("invalid_field"), &json!("url")));
        let own = CliError::Output { source: io::Error::other("disk on fire") };
        let document: Value = serde_json::from_str(&own.as_json()).unwrap();
        assert_eq!(document["detail"], "cannot write to standard output: disk on fire");
        assert_eq!(document["exit_code"], 1);
    }
}
