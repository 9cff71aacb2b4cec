//! Who may call at all. Runs before any handler, on every path and method, also where there is nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, ORIGIN};
use axum::http::uri::Scheme;
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use url::form_urlencoded;

use super::connections::ConnectionHandle;
use super::hosts::AllowedHosts;
use super::problem::{Code, Problem};
use super::tokens::{Caller, Tokens, WrongTokens};

/// The largest request body, in bytes: what axum's own extractors allow by default.
pub const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// Calls of `/v1` that are worked on at once: half of the default number of connections, so that a connection is
/// always free to say so, and `/healthz` answers meanwhile.
pub const MAX_CALLS_IN_FLIGHT: usize = 512;

/// For the whole body of a request to arrive: 2 MB at 70 kB/s.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What is read, and thrown away, of the body of a refused request, and for how long. Closing a socket with unread
/// bytes resets it, and the client would see that instead of the answer.
const DRAIN_BYTES: usize = 4 * MAX_BODY_BYTES;
const DRAIN_TIME: Duration = Duration::from_millis(500);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whom to let in.
#[derive(Debug)]
pub struct Guard {
    hosts: AllowedHosts,
    tokens: Tokens,
    wrong_tokens: WrongTokens,
    calls: Semaphore,
}

impl Guard {
    pub fn new(hosts: AllowedHosts, tokens: Tokens) -> Self {
        let calls = Semaphore::new(MAX_CALLS_IN_FLIGHT);
        Self { hosts, tokens, wrong_tokens: WrongTokens::default(), calls }
    }

    /// What the head of a request says against it, the cheapest and most telling first.
    fn check_head(&self, request: &Request) -> Result<Option<Caller>, Problem> {
        let (uri, headers) = (request.uri(), request.headers());
        let host = self.check_host(uri, headers)?;
        check_origin(host, headers)?;
        check_query(uri)?;
        let caller = if needs_token(uri.path()) { Some(self.check_token(headers)?) } else { None };
        if !request.body().is_end_stream() {
            check_content_type(headers)?;
            check_length(headers)?;
        }
        Ok(caller)
    }

    fn check_host<'r>(&self, uri: &Uri, headers: &'r HeaderMap) -> Result<&'r str, Problem> {
        let refused = || Problem::new(Code::HostNotAllowed, "The Host header does not name this service.");
        let host = only(headers, &HOST).ok_or_else(refused)?;
        // `GET http://name/ HTTP/1.1`: a server is to go by that name, so it must be the same one.
        let same_authority = uri.authority().is_none_or(|authority| authority.as_str() == host);
        let http = uri.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP);
        if same_authority && http && self.hosts.allows(host) { Ok(host) } else { Err(refused()) }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if !headers.contains_key(AUTHORIZATION) {
            return Err(Problem::new(Code::Unauthorized, "The request has no Authorization header."));
        }
        let token = only(headers, &AUTHORIZATION).and_then(bearer_token);
        if let Some(caller) = token.and_then(|token| self.tokens.caller(token)) {
            return Ok(caller);
        }
        metrics::counter!("pandarium_http_wrong_tokens_total").increment(1);
        match self.wrong_tokens.note() {
            Ok(()) => Err(Problem::new(Code::Unauthorized, "The token is wrong.")),
            Err(wait) => Err(Problem::new(Code::TooManyRequests, "Too many wrong tokens were sent.").retry_after(wait)),
        }
    }

    /// One of the places for calls that do work. The others answer at once from what is in memory.
    fn place_for(&self, path: &str) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        if !path.starts_with("/v1/") {
            return Ok(None);
        }
        let full = |_| Problem::new(Code::PoolExhausted, format!("{MAX_CALLS_IN_FLIGHT} calls are being worked on."));
        self.calls.try_acquire().map(Some).map_err(full)
    }
}

/// The layer. A refused request touches nothing but its own body.
pub async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let checked = guard.check_head(&request);
    let (mut parts, mut body) = request.into_parts();
    let admitted = async {
        let caller = checked?;
        let content = read_body(&mut body).await?;
        Ok((caller, content, guard.place_for(parts.uri.path())?))
    };
    let (caller, content, _place) = match admitted.await {
        Ok(admitted) => admitted,
        Err(problem) => {
            drain(&parts.headers, body).await;
            return Problem::into_response(problem);
        }
    };
    if let Some(caller) = caller {
        tracing::Span::current().record("caller", caller.as_str());
        parts.extensions.insert(caller);
    }
    let _busy = parts.extensions.get::<ConnectionHandle>().map(ConnectionHandle::busy);
    next.run(Request::from_parts(parts, Body::from(content))).await
}

/// Liveness, readiness and the documentation say nothing about pages; all else needs a token, unknown paths too.
pub fn needs_token(path: &str) -> bool {
    !matches!(path, "/healthz" | "/readyz" | "/openapi.json" | "/docs") && !path.starts_with("/docs/")
}

/// The value of a header that is there exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_none() { Some(value) } else { None }
}

/// A web page of another origin is refused before its token is looked at: a browser adds both headers by itself.
fn check_origin(host: &str, headers: &HeaderMap) -> Result<(), Problem> {
    let same_origin = |origin: &str| {
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).is_some_and(|rest| rest == host)
    };
    let origin_fits = !headers.contains_key(ORIGIN) || only(headers, &ORIGIN).is_some_and(same_origin);
    let site_fits = !headers.contains_key(SEC_FETCH_SITE)
        || only(headers, &SEC_FETCH_SITE).is_some_and(|site| matches!(site, "none" | "same-origin"));
    if origin_fits && site_fits {
        return Ok(());
    }
    Err(Problem::new(Code::OriginNotAllowed, "The request was made by a web page of another origin."))
}

/// A token in a URL ends up in logs, histories and referrers, so it is refused even if it is right.
fn check_query(uri: &Uri) -> Result<(), Problem> {
    let is_token = |name: &str| name.eq_ignore_ascii_case("token") || name.eq_ignore_ascii_case("access_token");
    if form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).any(|(name, _)| is_token(&name)) {
        return Err(Problem::new(Code::InvalidRequest, "A token does not belong into the URL.")
            .hint("Send the token in the Authorization header; percent-encode a URL that is itself a query value."));
    }
    Ok(())
}

fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim_start_matches(' '))
}

/// A form or a beacon of a web page can send other types without asking first, but not this one.
fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    if only(headers, &CONTENT_TYPE).is_some_and(is_json) {
        return Ok(());
    }
    Err(Problem::new(Code::UnsupportedMediaType, "The request body is not marked as application/json."))
}

/// `application/json`, in UTF-8, which is the only charset that it has.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let charset = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("charset"));
    essence.eq_ignore_ascii_case("application/json")
        && charset.is_none_or(|(_, value)| value.trim_matches('"').eq_ignore_ascii_case("utf-8"))
}

fn check_length(headers: &HeaderMap) -> Result<(), Problem> {
    let announced = only(headers, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok()).unwrap_or_default();
    if announced > MAX_BODY_BYTES as u64 { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("The request body is larger than {MAX_BODY_BYTES} bytes."))
        .with("max_bytes", MAX_BODY_BYTES)
}

/// The whole body, before the request is let in: handlers wait for no client, and a slow one holds no place.
async fn read_body(body: &mut Body) -> Result<Vec<u8>, Problem> {
    let late = || {
        let limit = BODY_TIMEOUT.as_secs();
        Problem::new(Code::InvalidRequest, format!("The request body did not arrive within {limit} seconds."))
    };
    let read = async {
        let mut content = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| Problem::new(Code::InvalidRequest, "The request body broke off.").caused_by(error))?;
            let Ok(data) = frame.into_data() else { continue };
            if content.len() + data.len() > MAX_BODY_BYTES {
                return Err(too_large());
            }
            content.extend_from_slice(&data);
        }
        Ok(content)
    };
    tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or_else(|_| Err(late()))
}

async fn drain(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(EXPECT) {
        // Reading would answer "100 Continue"; this client has sent nothing yet.
        return;
    }
    let read = async {
        let mut seen = 0;
        while seen < DRAIN_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            seen += frame.data_ref().map_or(0, |data| data.len());
        }
    };
    // Either way the answer goes out.
    let _ = tokio::time::timeout(DRAIN_TIME, read).await;
}
