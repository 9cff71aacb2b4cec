//! An answer of the service, and what each must have.

use std::sync::LazyLock;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

static OPENAPI: LazyLock<Value> = LazyLock::new(|| {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json"));
    serde_json::from_str(document).expect("openapi/openapi.json is JSON")
});

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.expect("the whole answer arrives").to_vec();
        Self { status, headers, body }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the answer is UTF-8")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("header values are ASCII"))
    }

    /// The document of a success.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    /// The document of an error, which must be this one.
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let document: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        assert_eq!((self.status, document["code"].as_str()), (status, Some(code)), "{}", self.text());
        document
    }

    /// A `navigation_failed` for this reason.
    pub fn navigation_failed(&self, reason: &str) -> Value {
        let problem = self.problem(502, "navigation_failed");
        assert_eq!(problem["reason"], reason, "{problem}");
        problem
    }

    /// The code of an error; none for a success.
    pub fn code(&self) -> Option<String> {
        let document: Value = serde_json::from_slice(&self.body).ok()?;
        document["code"].as_str().map(str::to_owned)
    }

    /// What holds for every answer of every call.
    pub fn check(&self, method: &Method, path: &str) {
        let call = format!("{method} {path} {}", self.status);
        assert!(self.header("x-request-id").is_some(), "{call}: no request id");
        if let Some(documented) = documented_statuses(method, path) {
            assert!(documented.contains(&self.status), "{call} is not in openapi.json, which has {documented:?}");
        }
        if self.status >= 400 {
            self.check_problem(&call, path);
        }
    }

    fn check_problem(&self, call: &str, path: &str) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{call}");
        let document: Value = serde_json::from_slice(&self.body).expect("a problem is JSON");
        let code = document["code"].as_str().expect("a problem has a code");
        assert_ne!(code, "internal", "{call}: {document}");
        assert_eq!(document["status"], self.status, "{call}");
        assert_eq!(document["type"], format!("/docs/errors#{code}"), "{call}");
        assert_eq!(document["instance"], path, "{call}");
        assert_eq!(document["request_id"].as_str(), self.header("x-request-id"), "{call}");
        assert!(document["retryable"].is_boolean() && document["hint"].is_string(), "{call}: {document}");
        if matches!(self.status, 429 | 503) {
            let wait = self.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
            assert!(wait.is_some_and(|wait| wait >= 1), "{call}: no Retry-After");
        }
    }
}

/// The statuses that the document has for this call; none where it has no such call.
fn documented_statuses(method: &Method, path: &str) -> Option<Vec<u16>> {
    let paths = OPENAPI["paths"].as_object().expect("openapi.json has paths");
    let (_, operations) = paths.iter().find(|(template, _)| matches(template, path))?;
    let responses = operations.get(method.as_str().to_ascii_lowercase())?["responses"].as_object()?;
    Some(responses.keys().map(|status| status.parse().expect("a status")).collect())
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len() && template.iter().zip(&path).all(|(part, text)| part.starts_with('{') || part == text)
}
