//! What handlers take: a JSON body, a query, a path, and the wished form of the answer; each failing as a typed problem.

use std::convert::Infallible;
use std::fmt::Display;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use url::form_urlencoded;

use super::problem::{Code, Problem};

/// An error text repeats the value that it is about, and that may be the whole body.
const MAX_DETAIL_CHARS: usize = 300;

/// A JSON body. `guard` has checked its media type and size.
#[derive(Debug)]
pub struct ApiJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await.map_err(Problem::internal)?;
        parse_json(&body).map(Self)
    }
}

fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() {
        return Err(Problem::new(Code::InvalidRequest, "The request has no body; this call needs a JSON object."));
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => invalid_field(json_path::<T>(body, &error), &error),
        Category::Io | Category::Syntax | Category::Eof => {
            Problem::new(Code::InvalidRequest, bounded(format!("The request body is not valid JSON: {error}.")))
                .with("line", error.line())
                .with("column", error.column())
        }
    })
}

/// Where in the document `error` is, such as `cookies[0].name`. `serde_json` does not say, axum's own extractor does,
/// in front of the same error's text.
fn json_path<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Option<String> {
    let Err(JsonRejection::JsonDataError(located)) = Json::<T>::from_bytes(body) else { return None };
    let located = std::error::Error::source(&located)?.to_string();
    located.strip_suffix(&error.to_string())?.strip_suffix(": ").map(str::to_owned)
}

/// A query string. A key that `T` does not know, or that comes twice, is refused if `T` denies unknown fields.
#[derive(Debug)]
pub struct ApiQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parse_query(&parts.uri).map(Self)
    }
}

fn parse_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let rejection = match Query::<T>::try_from_uri(uri) {
        Ok(Query(query)) => return Ok(query),
        Err(rejection) => rejection,
    };
    let located = std::error::Error::source(&rejection).map_or_else(|| rejection.to_string(), ToString::to_string);
    // The text is `key: what is wrong` where serde knows the key, and it can only be one that was sent.
    let keys = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).map(|(key, _)| key);
    let split = keys.filter_map(|key| Some((located.strip_prefix(&*key)?.strip_prefix(": ")?.to_owned(), key))).next();
    Err(match split {
        Some((error, key)) => invalid_field(Some(key.into_owned()), &error),
        None => invalid_field(None, &located),
    })
}

/// The parts of a path. A text that is no id of ours names nothing: 404, the same answer as for an id that is unknown.
#[derive(Debug)]
pub struct ApiPath<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let not_found = |_| Problem::new(Code::NotFound, "There is nothing at this path.");
        Path::<T>::from_request_parts(parts, state).await.map(|Path(value)| Self(value)).map_err(not_found)
    }
}

fn invalid_field(path: Option<String>, error: &impl Display) -> Problem {
    let error = error.to_string();
    let field = field_name(path, &error);
    let problem = Problem::new(Code::InvalidField, bounded(format!("{error}.")));
    match field {
        Some(field) => problem.with("field", bounded(field)),
        None => problem,
    }
}

/// The whole name of the field: where serde was, and the field that it says is unknown, missing or there twice.
fn field_name(path: Option<String>, error: &str) -> Option<String> {
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| Some(error.strip_prefix(start)?.split_once('`')?.0));
    match (path, named) {
        (Some(path), Some(name)) if path == name || path.ends_with(&format!(".{name}")) => Some(path),
        (Some(path), Some(name)) => Some(format!("{path}.{name}")),
        (path, name) => path.or_else(|| name.map(str::to_owned)),
    }
}

fn bounded(text: String) -> String {
    match text.char_indices().nth(MAX_DETAIL_CHARS) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The form that the client prefers for text, by its `Accept` header. JSON where it says nothing, or nothing that we
/// have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Json,
    Markdown,
    Text,
}

impl Representation {
    pub fn wanted(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = accepted.flat_map(|value| value.split(',')).filter_map(media_range);
        // The first of the best: `max_by` would take the last.
        let best = ranges.reduce(|best, range| if range.1 > best.1 { range } else { best });
        best.map_or(Self::Json, |(representation, _)| representation)
    }

    fn of_range(range: &str) -> Option<Self> {
        match range.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "text/markdown" | "text/*" => Some(Self::Markdown),
            "text/plain" => Some(Self::Text),
            _ => None,
        }
    }
}

/// `text/markdown;q=0.5` as what we have for it, and its weight in thousandths; `None` if it is not wanted or not had.
fn media_range(range: &str) -> Option<(Representation, u16)> {
    let mut parts = range.split(';').map(str::trim);
    let representation = Representation::of_range(parts.next()?)?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let weight = weight.map_or(Some(1.0), |weight| weight.parse::<f32>().ok())?;
    let thousandths = (weight.clamp(0.0, 1.0) * 1000.0).round() as u16;
    (thousandths > 0).then_some((representation, thousandths))
}

impl<S: Send + Sync> FromRequestParts<S> for Representation {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::wanted(&parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call {
        #[expect(dead_code, reason = "only whether it parses is tested")]
        url: String,
        #[serde(default)]
        #[expect(dead_code, reason = "only whether it parses is tested")]
        limit: Option<u32>,
        #[serde(default)]
        #[expect(dead_code, reason = "only whether it parses is tested")]
        cookies: Vec<Cookie>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Cookie {
        #[expect(dead_code, reason = "only whether it parses is tested")]
        name: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Window {
        #[expect(dead_code, reason = "only whether it parses is tested")]
        find: Option<String>,
        #[expect(dead_code, reason = "only whether it parses is tested")]
        limit: Option<u32>,
    }

    fn problem<T>(result: Result<T, Problem>) -> (Code, serde_json::Map<String, Value>, String) {
        let Err(problem) = result else { panic!("it parsed") };
        let document = problem.document("/", "");
        (problem.code(), document.extras, document.detail)
    }

    #[test]
    fn a_wrong_field_of_a_body_is_named_in_full() {
        for (body, field) in [
            (r#"{"url":1}"#, "url"),
            (r#"{}"#, "url"),
            (r#"{"url":"u","url":"v"}"#, "url"),
            (r#"{"url":"u","colour":"red"}"#, "colour"),
            (r#"{"url":"u","limit":-1}"#, "limit"),
            (r#"{"url":"u","cookies":[{"name":"a"},{"name":null}]}"#, "cookies[1].name"),
            (r#"{"url":"u","cookies":[{}]}"#, "cookies[0].name"),
            (r#"{"url":"u","cookies":[{"name":"a","": 1}]}"#, "cookies[0]."),
            (r#"{"url":"u","cookies":[{"name":"a","a: b": 1}]}"#, "cookies[0].a: b"),
        ] {
            let (code, extras, detail) = problem(parse_json::<Call>(body.as_bytes()));
            assert_eq!((code, extras["field"].as_str()), (Code::InvalidField, Some(field)), "{body}: {detail}");
        }
        let (code, extras, detail) = problem(parse_json::<Call>(b"[1]"));
        assert_eq!(code, Code::InvalidField, "{detail}");
        assert_eq!(extras.get("field").and_then(Value::as_str), Some("[0]"), "a wrong first element is a wrong url");
        assert_eq!(problem(parse_json::<Call>(b"7")).1.get("field"), None, "the whole body is wrong");
    }

    #[test]
    fn a_body_that_is_not_json_is_told_where_it_breaks() {
        let deep = "[".repeat(100_000);
        let bodies = ["{", "{\"url\":}", "{\"url\":\"u\"} x", "\u{feff}{}", "{\"url\":\"\\ud800\"}"];
        let results = bodies.map(|body| parse_json::<Call>(body.as_bytes()).map(drop));
        for result in results.into_iter().chain([parse_json::<Value>(deep.as_bytes()).map(drop)]) {
            let (code, extras, detail) = problem(result);
            assert_eq!(code, Code::InvalidRequest, "{detail}");
            assert!(extras["line"].as_u64() >= Some(1) && extras.contains_key("column"), "{detail}");
        }
        let (code, extras, _) = problem(parse_json::<Call>(b"{\n \"url\": nul }"));
        assert_eq!((code, extras["line"].as_u64()), (Code::InvalidRequest, Some(2)));
        assert_eq!(problem(parse_json::<Call>(b"")).0, Code::InvalidRequest);
        assert_eq!(problem(parse_json::<Call>(b"{\"url\":\"\xff\"}")).0, Code::InvalidRequest);
    }

    #[test]
    fn an_error_repeats_only_the_beginning_of_a_long_value() {
        let body = format!(r#"{{"url":"u","limit":"{}"}}"#, "é".repeat(100_000));
        let (_, extras, detail) = problem(parse_json::<Call>(body.as_bytes()));
        assert_eq!(extras["field"], "limit");
        assert_eq!(detail.chars().count(), MAX_DETAIL_CHARS + 1);
    }

    #[test]
    fn a_wrong_key_of_a_query_is_named() {
        for (query, field) in
            [("limit=x", "limit"), ("limit=-1", "limit"), ("limit=1&limit=2", "limit"), ("a%3A%20b=1", "a: b")]
        {
            let uri: Uri = format!("/x?{query}").parse().unwrap();
            let (code, extras, detail) = problem(parse_query::<Window>(&uri));
            assert_eq!((code, extras["field"].as_str()), (Code::InvalidField, Some(field)), "{query}: {detail}");
        }
        assert!(parse_query::<Window>(&Uri::from_static("/x?limit=7&find=a%20b")).is_ok());
        assert!(parse_query::<Window>(&Uri::from_static("/x")).is_ok());
    }

    #[test]
    fn the_answer_takes_the_form_that_the_client_prefers() {
        use Representation::{Json, Markdown, Text};
        for (accept, wanted) in [
            ("", Json),
            ("*/*", Json),
            ("text/markdown", Markdown),
            ("TEXT/Markdown; charset=utf-8", Markdown),
            ("text/plain, text/markdown", Text),
            ("text/plain;q=0.5, text/markdown;q=0.9", Markdown),
            ("text/markdown;q=0, */*;q=0.1", Json),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Json),
            ("image/png", Json),
            ("text/markdown;q=nonsense", Json),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Representation::wanted(&headers), wanted, "{accept}");
        }
        assert_eq!(Representation::wanted(&HeaderMap::new()), Json);
    }
}
