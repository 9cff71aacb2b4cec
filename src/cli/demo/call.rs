//! One call of the demo: how it is written for `curl`, sent, and shown.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;

use crate::cli::token::quoted;
use crate::serve::Running;
use crate::store::data_dir::tokens::auth_header_path;

/// Longer than any call of the demo may take.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// What is shown of an answer where a call does not say otherwise, in characters.
const SHOWN: usize = 2_000;

/// A call, what it is for, and what its answer must hold.
pub struct Call {
    pub says: &'static str,
    path: String,
    body: Option<Value>,
    accept: Option<&'static str>,
    status: u16,
    holds: &'static str,
    /// Characters of the answer that are shown.
    pub shows: usize,
}

impl Call {
    pub fn get(says: &'static str, path: &str) -> Self {
        let path = path.to_owned();
        Self { says, path, body: None, accept: None, status: 200, holds: "", shows: SHOWN }
    }

    /// A fetch by POST.
    pub fn post(says: &'static str, body: Value) -> Self {
        Self { body: Some(body), ..Self::get(says, "/v1/fetch") }
    }

    pub fn accepting(self, accept: &'static str) -> Self {
        Self { accept: Some(accept), ..self }
    }

    pub fn holding(self, status: u16, holds: &'static str) -> Self {
        Self { status, holds, ..self }
    }

    pub fn showing(self, shows: usize) -> Self {
        Self { shows, ..self }
    }

    pub fn is_answered_by(&self, answer: &Answer) -> bool {
        answer.status == self.status && answer.body.contains(self.holds)
    }
}

/// What came back.
pub struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    /// The id of the artifact that a fetch kept.
    pub fn artifact(&self) -> Option<String> {
        let answer: Value = serde_json::from_str(&self.body).ok()?;
        answer["artifact"]["id"].as_str().map(str::to_owned)
    }

    /// The status and the beginning of the body; JSON is cut as it is, so that the cut shows.
    pub fn shown(&self, limit: usize) -> String {
        let total = self.body.chars().count();
        let shown: String = self.body.trim_end().chars().take(limit).collect();
        let rest = if total > limit { format!(" [... {} characters more]", total - limit) } else { String::new() };
        format!("HTTP {}\n{shown}{rest}", self.status)
    }
}

/// Sends calls to the demo's service.
pub struct Caller {
    client: reqwest::Client,
    url: String,
    auth_header: PathBuf,
    authorization: String,
}

impl Caller {
    pub fn new(service: &Running) -> Result<Self, reqwest::Error> {
        let auth_header = auth_header_path(service.data_dir());
        let line = std::fs::read_to_string(&auth_header).unwrap_or_default();
        let authorization = line.trim().trim_start_matches("Authorization: ").to_owned();
        let client = reqwest::Client::builder().no_proxy().timeout(CALL_LIMIT).build()?;
        Ok(Self { client, url: service.url().to_owned(), auth_header, authorization })
    }

    /// The call as a person would type it while the demo runs.
    pub fn curl(&self, call: &Call) -> String {
        let accept = call.accept.map(|accept| format!(" -H 'Accept: {accept}'")).unwrap_or_default();
        let body = call.body.as_ref();
        let body = body.map(|body| format!(" -H 'Content-Type: application/json' -d '{body}'")).unwrap_or_default();
        let header = quoted(&self.auth_header.display().to_string());
        format!("curl -H @{header}{accept}{body} '{}{}'", self.url, call.path)
    }

    pub async fn send(&self, call: &Call) -> Result<Answer, reqwest::Error> {
        let url = format!("{}{}", self.url, call.path);
        let mut request = match &call.body {
            Some(body) => self.client.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()),
            None => self.client.get(url),
        };
        request = request.header(AUTHORIZATION, &self.authorization);
        if let Some(accept) = call.accept {
            request = request.header(ACCEPT, accept);
        }
        let response = request.send().await?;
        Ok(Answer { status: response.status().as_u16(), body: response.text().await? })
    }
}
