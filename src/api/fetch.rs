//! `/v1/fetch`: a page as text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_LOCATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::ApiState;
use super::extract::{ApiJson, ApiQuery, Representation};
use super::openapi::{ResponseMap, problem_responses};
use super::problem::{Code, NavigationReason, Problem};
use crate::app::fetch::FetchError;
use crate::app::fetch::answer::{Answer, Warning};
use crate::app::fetch::load::LoadError;
use crate::app::fetch::plan::{Keep, LoadPlan, Plan, PlannedCookie};
use crate::browser::wait::WaitUntil;
use crate::domain::deadline::Deadline;
use crate::reader::{ContentMode, Format, ReaderError};

mod check;

/// What a caller may leave out, and how far it may go.
#[derive(Debug, Clone)]
pub struct FetchLimits {
    pub timeout: Duration,
    pub max_timeout: Duration,
    pub settle_ms: u64,
    pub max_chars: usize,
}

/// Which page, when it is ready, and what to make of it.
#[derive(Debug, Clone, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FetchRequest {
    /// An http or https URL of a public host.
    #[schema(example = "https://example.com/")]
    pub url: String,
    /// Default `markdown`.
    pub format: Option<Format>,
    /// The main content, or the whole page. Default `main`.
    pub content: Option<ContentMode>,
    /// CSS selector of the only part to read, in place of `content`.
    #[schema(max_length = 1024)]
    pub selector: Option<String>,
    /// When the page counts as ready. Default `settled`.
    pub wait_until: Option<WaitUntil>,
    /// Waits until this CSS selector matches, as long as the call may last.
    #[schema(max_length = 1024)]
    pub wait_for_selector: Option<String>,
    /// Waits until this JavaScript expression is truthy, as long as the call may last.
    #[schema(max_length = 16384)]
    pub wait_for_script: Option<String>,
    /// The longest wait for the page to settle after its load event, in milliseconds. Default 2,000.
    #[schema(maximum = 60000)]
    pub settle_ms: Option<u64>,
    /// Request headers by name, sent to the URL's origin only. By POST only.
    #[param(ignore)]
    pub headers: Option<BTreeMap<String, String>>,
    /// Cookies that the page finds. By POST only.
    #[param(ignore)]
    #[schema(max_items = 100)]
    pub cookies: Option<Vec<CookieGiven>>,
    /// BCP 47 language tag for `Accept-Language` and `navigator.language`. Default `en-US`.
    #[schema(example = "de-DE", max_length = 35)]
    pub locale: Option<String>,
    /// How long the call may last, in milliseconds. Default 90,000, at most 600,000.
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// The longest `content`, in characters; it is cut on a line border. Default 50,000.
    #[schema(minimum = 1)]
    pub max_chars: Option<usize>,
    /// Takes the newest kept answer to the same request if it is no older, in seconds; keeps the answer otherwise.
    #[schema(maximum = 31536000)]
    pub max_age_s: Option<u64>,
    /// Whether the whole text is kept. Default `auto`: when it was cut, or `max_age_s` is given.
    pub artifact: Option<Keep>,
    /// Default `lightpanda`, the only one for now. There is no other behind your back.
    pub engine: Option<EngineName>,
}

/// A cookie for the page.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CookieGiven {
    #[schema(max_length = 256)]
    pub name: String,
    #[schema(max_length = 4096)]
    pub value: String,
    /// Default: the URL's host.
    pub domain: Option<String>,
    /// Default `/`.
    pub path: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    Lightpanda,
}

struct FetchProblems;

impl utoipa::IntoResponses for FetchProblems {
    fn responses() -> ResponseMap {
        problem_responses(&[
            Code::NetworkBlocked,
            Code::TargetNotFound,
            Code::UnsupportedContentType,
            Code::InvalidField,
            Code::ScriptError,
            Code::NavigationFailed,
            Code::WorkerLost,
            Code::PoolExhausted,
            Code::EngineUnavailable,
            Code::ShuttingDown,
            Code::DeadlineExceeded,
            Code::StorageFull,
        ])
    }
}

/// Read a page as text
///
/// With `Accept: text/markdown` or `text/plain` the body is the text alone, and the rest is in `x-pandarium-*` headers.
#[utoipa::path(
    post, path = "/v1/fetch", tag = "fetch", request_body = FetchRequest,
    responses((status = 200, description = "The page as text", content((Answer = "application/json"), (String = "text/markdown"), (String = "text/plain"))), FetchProblems)
)]
pub async fn fetch(
    State(state): State<Arc<ApiState>>,
    representation: Representation,
    ApiJson(request): ApiJson<FetchRequest>,
) -> Result<Response, Problem> {
    let (plan, deadline) = plan(request, &state.fetch_limits)?;
    let answer = state.fetcher.fetch(plan, deadline).await?;
    Ok(represent(answer, representation))
}

/// Read a page as text, by query
///
/// The same as by POST, without headers and cookies: convenient for `curl`.
#[utoipa::path(
    get, path = "/v1/fetch", tag = "fetch", params(FetchRequest),
    responses((status = 200, description = "The page as text", content((Answer = "application/json"), (String = "text/markdown"), (String = "text/plain"))), FetchProblems)
)]
pub async fn fetch_by_query(
    State(state): State<Arc<ApiState>>,
    representation: Representation,
    ApiQuery(request): ApiQuery<FetchRequest>,
) -> Result<Response, Problem> {
    let (plan, deadline) = plan(request, &state.fetch_limits)?;
    let answer = state.fetcher.fetch(plan, deadline).await?;
    Ok(represent(answer, representation))
}

/// The request with its defaults, once every field has been found good.
fn plan(request: FetchRequest, limits: &FetchLimits) -> Result<(Plan, Deadline), Problem> {
    check::request(&request, limits)?;
    let deadline = Deadline::after(request.timeout_ms.map_or(limits.timeout, Duration::from_millis));
    let cookie = |cookie: CookieGiven| PlannedCookie {
        name: cookie.name,
        value: cookie.value,
        domain: cookie.domain,
        path: cookie.path,
    };
    let EngineName::Lightpanda = request.engine.unwrap_or(EngineName::Lightpanda);
    let plan = Plan {
        load: LoadPlan {
            url: request.url,
            selector: request.selector,
            wait_until: request.wait_until.unwrap_or(WaitUntil::Settled),
            wait_for_selector: request.wait_for_selector,
            wait_for_script: request.wait_for_script,
            settle_ms: request.settle_ms.unwrap_or(limits.settle_ms),
            headers: request.headers.unwrap_or_default().into_iter().collect(),
            cookies: request.cookies.unwrap_or_default().into_iter().map(cookie).collect(),
            locale: request.locale,
            engine: "lightpanda",
        },
        format: request.format.unwrap_or(Format::Markdown),
        content: request.content.unwrap_or(ContentMode::Main),
        max_chars: request.max_chars.unwrap_or(limits.max_chars),
        max_age: request.max_age_s.map(Duration::from_secs),
        keep: request.artifact.unwrap_or_default(),
    };
    Ok((plan, deadline))
}

fn represent(answer: Answer, representation: Representation) -> Response {
    if representation == Representation::Json {
        return Json(answer).into_response();
    }
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(&percent_encoded(value)) {
            headers.insert(name, value);
        }
    };
    let media_type = match (representation, answer.format) {
        // A stranger's HTML is not served as a page of ours.
        (Representation::Text, _) | (_, Format::Text | Format::Html) => "text/plain; charset=utf-8",
        (_, Format::StructuredData) => "application/json",
        _ => "text/markdown; charset=utf-8",
    };
    set(CONTENT_TYPE, media_type);
    set(CONTENT_LOCATION, &answer.final_url);
    set(HeaderName::from_static("x-pandarium-http-status"), &answer.http_status.to_string());
    set(HeaderName::from_static("x-pandarium-truncated"), &answer.truncated.to_string());
    set(HeaderName::from_static("x-pandarium-total-chars"), &answer.total_chars.to_string());
    set(HeaderName::from_static("x-pandarium-mode"), &answer.mode_used);
    set(HeaderName::from_static("x-pandarium-engine"), &format!("{}/{}", answer.engine.name, answer.engine.version));
    set(HeaderName::from_static("x-pandarium-elapsed-ms"), &answer.elapsed_ms.to_string());
    if let Some(title) = &answer.title {
        set(HeaderName::from_static("x-pandarium-title"), title);
    }
    if let Some(artifact) = &answer.artifact {
        set(HeaderName::from_static("x-pandarium-artifact"), &artifact.id.to_string());
    }
    if !answer.warnings.is_empty() {
        let codes: Vec<String> = answer.warnings.iter().map(Warning::code).collect();
        set(HeaderName::from_static("x-pandarium-warnings"), &codes.join(", "));
    }
    (headers, answer.content).into_response()
}

/// A header value is ASCII: anything else is percent-encoded UTF-8, and so is `%` where something was encoded.
fn percent_encoded(value: &str) -> String {
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte);
    if value.bytes().all(is_plain) {
        return value.to_owned();
    }
    let encode =
        |byte: u8| if is_plain(byte) && byte != b'%' { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}

impl From<FetchError> for Problem {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Load(error) => error.into(),
            FetchError::Read(error) => error.into(),
            FetchError::Keep(error) => Self::from(error).hint(
                "Free disk space or delete artifacts; with `artifact: never`, or a `max_chars` that holds the whole \
                 text, nothing needs to be kept.",
            ),
            FetchError::Lookup(error) => error.into(),
            FetchError::NotAPage { url, content_type, format } => Self::new(
                Code::UnsupportedContentType,
                format!("The response is a text by itself; it has no {format}."),
            )
            .with("url", url)
            .with("content_type", content_type)
            .hint("Ask for `markdown`, `text` or `html`."),
            FetchError::Panicked => Self::internal(error),
        }
    }
}

impl From<LoadError> for Problem {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Refused(refusal) => refusal.into(),
            LoadError::Browser(error) => error.into(),
            LoadError::UnsupportedContentType { url, content_type } => {
                Self::new(Code::UnsupportedContentType, "The response is not a text.")
                    .with("url", url)
                    .with("content_type", content_type)
            }
            LoadError::Empty { url, http_status } => {
                Self::navigation_failed(NavigationReason::Empty, "The response has an empty body.")
                    .with("url", url)
                    .with("http_status", http_status)
            }
            LoadError::Download { url, content_type } => {
                Self::navigation_failed(NavigationReason::Download, "The server sends this as a file to save.")
                    .with("url", url)
                    .with("content_type", content_type)
            }
            LoadError::Capture(_) => Self::internal(error),
        }
    }
}

impl From<ReaderError> for Problem {
    fn from(error: ReaderError) -> Self {
        match error {
            ReaderError::InvalidSelector { .. } => {
                Self::new(Code::InvalidField, "The selector is not valid CSS.").with("field", "selector")
            }
            ReaderError::SelectorNotFound => {
                Self::new(Code::TargetNotFound, "Nothing on the page matches the selector.")
            }
        }
    }
}
