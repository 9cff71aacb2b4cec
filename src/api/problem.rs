//! Errors on the wire: RFC 9457 `application/problem+json`.

mod code;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use code::{Code, CodeRow, ExitCode};

/// The media type of every error answer.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What `Retry-After` says when a 429 or 503 knows nothing better: a worker is replaced within a second.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a navigation failed: the `reason` of a `navigation_failed` problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NavigationReason {
    Dns,
    Refused,
    Tls,
    Reset,
    TooLarge,
    RedirectLoop,
    BadEncoding,
    Empty,
    Download,
}

impl NavigationReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::TooLarge => "too_large",
            Self::RedirectLoop => "redirect_loop",
            Self::BadEncoding => "bad_encoding",
            Self::Empty => "empty",
            Self::Download => "download",
        }
    }

    /// The peer or the network may do better the next time; the others describe the page itself.
    fn is_transient(self) -> bool {
        matches!(self, Self::Dns | Self::Refused | Self::Reset)
    }
}

/// An error on its way to the client.
///
/// A handler returns it as it is. `frame` completes it with the request's path and id, writes the body and logs the
/// error behind it, once.
#[derive(Clone)]
pub struct Problem {
    code: Code,
    detail: String,
    hint: Option<String>,
    retryable: bool,
    retry_after: Option<Duration>,
    extras: Map<String, Value>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl Problem {
    /// `detail` says what happened in this case, for a person. It holds no page text and no secret.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after = code.asks_to_wait().then_some(DEFAULT_RETRY_AFTER);
        let retryable = code.row().retryable;
        Self { code, detail: detail.into(), hint: None, retryable, retry_after, extras: Map::new(), cause: None }
    }

    pub fn navigation_failed(reason: NavigationReason, detail: impl Into<String>) -> Self {
        let mut problem = Self::new(Code::NavigationFailed, detail).with("reason", reason.as_str());
        problem.retryable = reason.is_transient();
        problem
    }

    /// A fault of the service itself. The client learns no more than that; the log gets the chain of `cause`.
    pub fn internal(cause: impl Error + Send + Sync + 'static) -> Self {
        Self::new(Code::Internal, "The service failed to answer this request.").caused_by(cause)
    }

    /// Replaces the code's own hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a member of its own to the document. A standard member's name is not overwritten by it.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.extras.insert(member.to_owned(), value.into());
        self
    }

    /// How long the client is asked to wait, where the code asks it to (429 and 503).
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = self.code.asks_to_wait().then_some(wait);
        self
    }

    /// The error behind it, for the log only.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }

    /// The document for the request on `path` that has the id `request_id`.
    pub fn document(&self, path: &str, request_id: &str) -> ProblemDocument {
        let row = self.code.row();
        let mut extras = self.extras.clone();
        extras.retain(|member, _| !STANDARD_MEMBERS.contains(&member.as_str()));
        ProblemDocument {
            kind: format!("/docs/errors#{}", row.code),
            title: row.title.to_owned(),
            status: row.status.as_u16(),
            detail: self.detail.clone(),
            instance: path.to_owned(),
            request_id: request_id.to_owned(),
            code: row.code.to_owned(),
            retryable: self.retryable,
            hint: self.hint.clone().unwrap_or_else(|| row.hint.to_owned()),
            extras,
        }
    }

    /// The whole answer to the request on `path` that has the id `request_id`.
    pub fn render(&self, path: &str, request_id: &str) -> Response {
        let document = self.document(path, request_id);
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = (self.code.row().status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if self.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// `Retry-After` counts whole seconds; rounded up, and never 0, which would say "at once".
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// The status with the problem beside it: `frame` renders the body, since only it knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.row().status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// An axum answer that is an error but not ours: a missing asset, a rejected method.
impl From<StatusCode> for Problem {
    fn from(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::new(Code::NotFound, "There is nothing at this path."),
            StatusCode::METHOD_NOT_ALLOWED => {
                Self::new(Code::MethodNotAllowed, "This path does not answer this method.")
            }
            status if status.is_client_error() => Self::new(Code::InvalidRequest, "The request cannot be answered."),
            _ => Self::new(Code::Internal, "The service failed to answer this request."),
        }
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problem").field("code", &self.code).field("cause", &self.cause).finish_non_exhaustive()
    }
}

const STANDARD_MEMBERS: [&str; 9] =
    ["type", "title", "status", "detail", "instance", "request_id", "code", "retryable", "hint"];

/// The body of every error answer, as it is written and as a client reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProblemDocument {
    /// Where the code is explained: `/docs/errors#CODE`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words; the same for every problem of that code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened in this case.
    pub detail: String,
    /// The path of the request.
    pub instance: String,
    /// The request's id, also in the `x-request-id` header and in the log.
    pub request_id: String,
    /// What a program decides by. A newer service may send one that this client does not know.
    #[schema(value_type = Code)]
    pub code: String,
    /// The same request may succeed when it is repeated.
    pub retryable: bool,
    /// What to do next.
    pub hint: String,
    /// What else this code tells, such as `field` or `reason`.
    #[serde(flatten)]
    pub extras: Map<String, Value>,
}

impl ProblemDocument {
    /// With what the command line ends; an unknown code is "other".
    pub fn exit_code(&self) -> ExitCode {
        Code::from_name(&self.code).map_or(ExitCode::Other, |code| code.row().exit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_the_standard_members_and_the_code_s_own() {
        let problem = Problem::new(Code::InvalidField, "`url` is missing.").with("field", "url").with("status", 1);
        let document = serde_json::to_value(problem.document("/v1/fetch", "id-1")).unwrap();
        let expected = json!({
            "type": "/docs/errors#invalid_field", "title": "Invalid field", "status": 422, "detail": "`url` is missing.",
            "instance": "/v1/fetch", "request_id": "id-1", "code": "invalid_field", "retryable": false,
            "hint": Code::InvalidField.row().hint, "field": "url",
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn a_client_reads_back_what_the_service_wrote() {
        let written = Problem::navigation_failed(NavigationReason::Dns, "No such host.").document("/v1/fetch", "id-2");
        let read: ProblemDocument = serde_json::from_slice(&serde_json::to_vec(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.extras["reason"], "dns");
        assert_eq!(read.exit_code(), ExitCode::NavigationOrContent);
        let newer = ProblemDocument { code: "from_the_future".to_owned(), ..read };
        assert_eq!(newer.exit_code(), ExitCode::Other);
    }

    #[test]
    fn only_what_the_network_did_is_worth_a_second_try() {
        let retryable = |reason| Problem::navigation_failed(reason, "").document("/", "").retryable;
        assert!(retryable(NavigationReason::Reset));
        assert!(!retryable(NavigationReason::Download));
    }

    #[test]
    fn every_reason_is_written_as_it_serialises() {
        use NavigationReason::*;
        for reason in [Dns, Refused, Tls, Reset, TooLarge, RedirectLoop, BadEncoding, Empty, Download] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn retry_after_is_whole_seconds_and_only_where_waiting_helps() {
        let header = |problem: Problem| {
            problem.render("/", "").headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned())
        };
        let full = Problem::new(Code::PoolExhausted, "");
        assert_eq!(header(full.clone()).as_deref(), Some("1"));
        assert_eq!(header(full.clone().retry_after(Duration::from_millis(2001))).as_deref(), Some("3"));
        assert_eq!(header(full.retry_after(Duration::ZERO)).as_deref(), Some("1"));
        assert_eq!(header(Problem::new(Code::NotFound, "").retry_after(Duration::from_secs(5))), None);
    }

    #[test]
    fn the_cause_stays_out_of_the_answer() {
        let problem = Problem::internal(std::io::Error::other("the secret path"));
        assert!(problem.cause().is_some());
        let document = serde_json::to_string(&problem.document("/", "")).unwrap();
        assert!(!document.contains("secret"), "{document}");
    }
}
