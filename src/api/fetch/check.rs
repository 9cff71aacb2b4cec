//! Whether each field of a fetch is one that can be used.

use axum::http::{HeaderName, HeaderValue};

use super::{CookieGiven, FetchLimits, FetchRequest};
use crate::api::problem::{Code, Problem};

const MAX_SELECTOR: usize = 1024;
const MAX_SCRIPT: usize = 16 * 1024;
const MAX_SETTLE_MS: u64 = 60_000;
const MAX_HEADERS: usize = 50;
const MAX_COOKIES: usize = 100;
/// RFC 6265 asks of browsers that they keep this much.
const MAX_COOKIE_BYTES: usize = 4096;
/// A year.
const MAX_AGE_S: u64 = 31_536_000;
/// RFC 5646, section 4.4.1: long enough for every registered tag.
const MAX_LOCALE: usize = 35;

/// Headers that belong to the connection or to the engine, not to a caller.
const NOT_THE_CALLERS: [&str; 14] = [
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-pandarium-egress",
];

/// The first field that cannot be used, as a problem that names it.
pub fn request(request: &FetchRequest, limits: &FetchLimits) -> Result<(), Problem> {
    within("selector", request.selector.as_deref().map(str::len), 1, MAX_SELECTOR)?;
    within("wait_for_selector", request.wait_for_selector.as_deref().map(str::len), 1, MAX_SELECTOR)?;
    within("wait_for_script", request.wait_for_script.as_deref().map(str::len), 1, MAX_SCRIPT)?;
    let max_timeout_ms = u64::try_from(limits.max_timeout.as_millis()).unwrap_or(u64::MAX);
    within("timeout_ms", request.timeout_ms, 1, max_timeout_ms)?;
    within("settle_ms", request.settle_ms, 0, MAX_SETTLE_MS)?;
    within("max_chars", request.max_chars, 1, usize::MAX)?;
    within("max_age_s", request.max_age_s, 0, MAX_AGE_S)?;
    within("headers", request.headers.as_ref().map(std::collections::BTreeMap::len), 0, MAX_HEADERS)?;
    within("cookies", request.cookies.as_ref().map(Vec::len), 0, MAX_COOKIES)?;
    if let Some(locale) = &request.locale
        && !is_language_tag(locale)
    {
        return Err(invalid("locale", "must be a BCP 47 language tag, such as de-DE"));
    }
    for (name, value) in request.headers.iter().flatten() {
        header(name, value)?;
    }
    request.cookies.iter().flatten().try_for_each(cookie)
}

fn within<T: PartialOrd + std::fmt::Display>(field: &str, value: Option<T>, min: T, max: T) -> Result<(), Problem> {
    match value {
        Some(value) if value < min || value > max => {
            Err(invalid(field, &format!("must be from {min} to {max}, or have such a length")))
        }
        _ => Ok(()),
    }
}

fn invalid(field: &str, what: &str) -> Problem {
    Problem::new(Code::InvalidField, format!("`{field}` {what}.")).with("field", field)
}

fn is_language_tag(text: &str) -> bool {
    let is_subtag = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let starts_with_letters = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    text.len() <= MAX_LOCALE && starts_with_letters && text.split('-').all(is_subtag)
}

fn header(name: &str, value: &str) -> Result<(), Problem> {
    let parsed =
        HeaderName::try_from(name).map_err(|_| invalid("headers", "holds a name that is no HTTP field name"))?;
    let name = parsed.as_str();
    if NOT_THE_CALLERS.contains(&name) || name.starts_with("proxy-") || name.starts_with("sec-") {
        return Err(invalid("headers", &format!("may not set {name}: it belongs to the connection or to the engine")));
    }
    HeaderValue::try_from(value).map(drop).map_err(|_| invalid("headers", "holds a value that is no HTTP field value"))
}

fn cookie(cookie: &CookieGiven) -> Result<(), Problem> {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte))
    };
    let is_value = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b';');
    let is_path = |text: &str| text.starts_with('/') && is_value(text);
    if !is_token(&cookie.name) {
        return Err(invalid("cookies", "holds a name that is no token of RFC 6265"));
    }
    if !is_value(&cookie.value) || cookie.name.len() + cookie.value.len() > MAX_COOKIE_BYTES {
        return Err(invalid("cookies", "holds a value that has a semicolon or control character, or over 4,096 bytes"));
    }
    if cookie.domain.as_deref().is_some_and(|domain| url::Host::parse(domain.trim_start_matches('.')).is_err()) {
        return Err(invalid("cookies", "holds a domain that is no host name"));
    }
    if !cookie.path.as_deref().is_none_or(is_path) {
        return Err(invalid("cookies", "holds a path that does not start with /"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn checked(fields: Value) -> Result<(), Problem> {
        let mut body = json!({ "url": "https://example.com/" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let limits = FetchLimits {
            timeout: Duration::from_secs(90),
            max_timeout: Duration::from_secs(600),
            settle_ms: 2000,
            max_chars: 50_000,
        };
        request(&serde_json::from_value(body).unwrap(), &limits)
    }

    #[test]
    fn each_field_that_cannot_be_used_is_named() {
        for (field, value) in [
            ("timeout_ms", json!(0)),
            ("timeout_ms", json!(600_001)),
            ("settle_ms", json!(60_001)),
            ("max_chars", json!(0)),
            ("max_age_s", json!(31_536_001)),
            ("selector", json!("")),
            ("wait_for_selector", json!("a".repeat(1025))),
            ("wait_for_script", json!("")),
            ("locale", json!("de_DE")),
            ("locale", json!("x\r\ny")),
            ("headers", json!({ "Host": "other.example" })),
            ("headers", json!({ "proxy-authorization": "x" })),
            ("headers", json!({ "a b": "x" })),
            ("headers", json!({ "x-a": "b\r\nc: d" })),
            ("cookies", json!([{ "name": "a b", "value": "x" }])),
            ("cookies", json!([{ "name": "a", "value": "x;y" }])),
            ("cookies", json!([{ "name": "a", "value": "x", "domain": "a b" }])),
            ("cookies", json!([{ "name": "a", "value": "x", "path": "b" }])),
        ] {
            let problem = checked(json!({ field: value.clone() })).expect_err(&format!("{field} {value}"));
            let document = problem.document("/v1/fetch", "id");
            assert_eq!((document.code.as_str(), document.extras["field"].as_str()), ("invalid_field", Some(field)));
        }
    }

    #[test]
    fn ordinary_fields_pass() {
        let fields = json!({
            "timeout_ms": 1, "settle_ms": 0, "max_chars": 1, "max_age_s": 0, "locale": "zh-Hant-TW",
            "headers": { "Authorization": "Bearer x", "Accept": "text/html" },
            "cookies": [{ "name": "a", "value": "", "domain": ".example.com", "path": "/x" }],
        });
        assert!(checked(fields).is_ok());
    }
}
