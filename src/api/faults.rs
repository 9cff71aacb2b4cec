//! How the errors of the layers below look to a client. What belongs to one resource stands in its own file.
//!
//! What a page wrote (a URL, an exception's text) goes into a member of its own, never into a sentence of ours.

use super::problem::{Code, NavigationReason, Problem};
use crate::app::artifacts::StoreError;
use crate::browser::{BrowserError, NavigationFailure};
use crate::domain::network::Refusal;

/// What is passed on of an exception's text.
const MAX_SCRIPT_MESSAGE: usize = 500;

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            // No address was judged: the text itself cannot be used.
            Refusal::Invalid(_) | Refusal::TooLong { .. } | Refusal::HostName => {
                Self::new(Code::InvalidField, detail).with("field", "url")
            }
            _ => Self::new(Code::NetworkBlocked, detail),
        }
    }
}

impl From<BrowserError> for Problem {
    fn from(error: BrowserError) -> Self {
        match &error {
            BrowserError::NoEngine { .. } | BrowserError::Launch(_) => {
                let detail = format!("The engine cannot be started: {}", crate::telemetry::error_chain(&error));
                Self::new(Code::EngineUnavailable, detail)
            }
            BrowserError::PoolExhausted { waiting } => {
                let detail = format!("Every worker is busy, and {waiting} calls are waiting, which is the limit.");
                Self::new(Code::PoolExhausted, detail)
            }
            BrowserError::Stopping => Self::new(Code::ShuttingDown, "The service is stopping."),
            BrowserError::WorkerLost { .. } => {
                Self::new(Code::WorkerLost, "The engine's process ended during the call.").caused_by(error)
            }
            BrowserError::PageLost => {
                let detail = "The engine gave the page up: its script ran too long without a pause, or it used too \
                              much memory.";
                Self::new(Code::WorkerLost, detail).hint("The page is too heavy for this engine; repeat the call once.")
            }
            BrowserError::DeadlineExceeded { step } => {
                Self::new(Code::DeadlineExceeded, format!("The time was up while {step}."))
            }
            BrowserError::Blocked { url, refusal } => {
                Self::new(Code::NetworkBlocked, refusal.to_string()).with("url", url.as_str())
            }
            BrowserError::Navigation { url, failure, engine_error } => {
                navigation_failed(*failure).with("url", url.as_str()).with("engine_error", engine_error.as_str())
            }
            BrowserError::Script { message, line, column } => {
                let message: String = message.chars().take(MAX_SCRIPT_MESSAGE).collect();
                Self::new(Code::ScriptError, "The script threw an error; `message` is its own text.")
                    .with("message", message)
                    .with("line", *line)
                    .with("column", *column)
            }
            BrowserError::InvalidSelector => {
                Self::new(Code::InvalidField, "The selector is not valid CSS.").with("field", "wait_for_selector")
            }
            BrowserError::Protocol(_) => Self::internal(error),
        }
    }
}

fn navigation_failed(failure: NavigationFailure) -> Problem {
    let (reason, detail) = match failure {
        NavigationFailure::Dns => (NavigationReason::Dns, "The host name could not be resolved."),
        NavigationFailure::Refused => (NavigationReason::Refused, "The host did not take the connection."),
        NavigationFailure::Tls => (NavigationReason::Tls, "The TLS handshake failed, or the certificate is not valid."),
        NavigationFailure::Reset => {
            (NavigationReason::Reset, "The connection ended before the whole answer was there.")
        }
        NavigationFailure::TooLarge => {
            (NavigationReason::TooLarge, "The page is larger than `max_response_bytes` of the configuration, decoded.")
        }
        NavigationFailure::RedirectLoop => (NavigationReason::RedirectLoop, "The page redirects without an end."),
        NavigationFailure::BadEncoding => {
            (NavigationReason::BadEncoding, "The body does not decode as its Content-Encoding says.")
        }
        NavigationFailure::TimedOut => {
            return Problem::new(Code::DeadlineExceeded, "The page did not arrive within the engine's own limit.");
        }
        NavigationFailure::Other => (NavigationReason::Reset, "The page could not be loaded."),
    };
    Problem::navigation_failed(reason, detail)
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Full(_) => Self::new(Code::StorageFull, "The disk that holds the data directory is full."),
            StoreError::ReadOnly(_) => Self::new(Code::StorageFull, "The data directory cannot be written.")
                .hint("Make the data directory writable for the service's user, then repeat the call."),
            _ => return Self::internal(error),
        }
        .caused_by(error)
    }
}
