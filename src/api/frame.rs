//! What every answer has, whatever the route: a request id, one log line, metrics, safe headers, a typed error.

use std::any::Any;
use std::fmt;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, Span, field};
use uuid::Uuid;

use super::problem::{Code, Problem};
use crate::telemetry::error_chain;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Nothing here is a page, unless the documentation says so with a policy of its own.
const NOT_A_PAGE: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// Names one request, in its answer and in the log. Always made here: an id that a client sends is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(Uuid);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The outermost layer.
pub async fn frame(mut request: Request, next: Next) -> Response {
    let id = RequestId(Uuid::now_v7());
    request.extensions_mut().insert(id);
    let path = request.uri().path().to_owned();
    let mut call = Call::begin(&request);
    // Neither query nor headers: they may hold page addresses, cookies and tokens.
    let span = tracing::info_span!(
        "request",
        request_id = %id,
        method = call.method,
        route = call.route,
        caller = field::Empty,
        status = field::Empty,
        latency_ms = field::Empty
    );
    async move {
        let mut response = next.run(request).await;
        let problem = problem_in(&mut response);
        if let Some(problem) = &problem {
            response = rendered(problem, &path, id, response);
        }
        add_headers(response.headers_mut(), id);
        call.end(&response, problem.as_ref());
        response
    }
    .instrument(span)
    .await
}

/// The problem of an error answer; one is made for an error that is not ours, such as axum's own 404 and 405.
fn problem_in(response: &mut Response) -> Option<Problem> {
    let status = response.status();
    let ours = response.extensions_mut().remove::<Problem>();
    ours.or_else(|| (status.is_client_error() || status.is_server_error()).then(|| Problem::from(status)))
}

fn rendered(problem: &Problem, path: &str, id: RequestId, mut bare: Response) -> Response {
    let mut response = problem.render(path, &id.to_string());
    if let Some(allow) = bare.headers_mut().remove(ALLOW) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

fn add_headers(headers: &mut HeaderMap, id: RequestId) {
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(X_REQUEST_ID, value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(NOT_A_PAGE);
}

/// A panic in a handler: a fault of ours that must not end the connection. What it said may quote a page, so it is
/// neither answered nor logged; the panic hook logs the place.
pub fn answer_to_panic(_said: Box<dyn Any + Send + 'static>) -> Response {
    metrics::counter!("pandarium_panics_total").increment(1);
    Problem::new(Code::Internal, "The service failed to answer this request.").into_response()
}

/// What is counted and logged of one request. Dropped before its end, the client has hung up.
struct Call {
    started: Instant,
    method: &'static str,
    route: String,
    ended: bool,
}

impl Call {
    fn begin(request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
        metrics::gauge!("pandarium_http_requests_in_flight").increment(1.0);
        Self { started: Instant::now(), method: known_method(request.method()), route, ended: false }
    }

    fn end(&mut self, response: &Response, problem: Option<&Problem>) {
        self.ended = true;
        let status = response.status();
        self.count(status.as_str());
        let span = Span::current();
        span.record("status", status.as_u16());
        span.record("latency_ms", self.started.elapsed().as_millis() as u64);
        match problem.map(|problem| (problem.code(), problem.cause().map(error_chain))) {
            None => tracing::info!("answered"),
            Some((code @ Code::Internal, cause)) => tracing::error!(%code, cause, "failed"),
            Some((code, Some(cause))) => tracing::warn!(%code, cause, "refused"),
            Some((code, None)) => tracing::info!(%code, "refused"),
        }
    }

    fn count(&self, status: &str) {
        let labels = [("method", self.method.to_owned()), ("route", self.route.clone())];
        metrics::histogram!("pandarium_http_request_duration_seconds", &labels)
            .record(self.started.elapsed().as_secs_f64());
        let [method, route] = labels;
        let labels = [method, route, ("status", status.to_owned())];
        metrics::counter!("pandarium_http_requests_total", &labels).increment(1);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        metrics::gauge!("pandarium_http_requests_in_flight").decrement(1.0);
        if !self.ended {
            self.count("hung_up");
            tracing::info!("the client hung up");
        }
    }
}

/// A method is any word that a client likes; a label must not be.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
