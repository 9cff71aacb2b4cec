//! The HTTP client to a running service.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::{Response, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CliError;
use crate::api::problem::{Code, MEDIA_TYPE, ProblemDocument};
use crate::config::Config;
use crate::domain::secret::Secret;
use crate::store::data_dir::tokens::Tokens;
use crate::store::data_dir::{Holder, holder};

/// The service is on this machine: it accepts at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// From the moment that a service holds the data directory until it listens. Leftovers of a killed one are swept in
/// between.
const START_LIMIT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(20);

/// A call to the service failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no pandarium runs on {path}: start one with `pandarium serve`", path = data_dir.display())]
    NotRunning { data_dir: PathBuf },

    #[error("the pandarium that holds {path} ({holder}) does not listen", path = data_dir.display())]
    NotListening { data_dir: PathBuf, holder: Holder },

    #[error("every pandarium on {path} stopped before it took the call", path = data_dir.display())]
    WentAway { data_dir: PathBuf },

    #[error("no HTTP client could be made")]
    Client {
        #[source]
        source: reqwest::Error,
    },

    #[error("{url} cannot be reached")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },

    #[error("{url} did not answer within {limit:?}")]
    TimedOut { url: String, limit: Duration },

    #[error("the answer of {url} broke off")]
    Broken {
        url: String,
        #[source]
        source: reqwest::Error,
    },

    #[error("{url} answered {status} in a way that no pandarium does")]
    NotOurs { url: String, status: u16 },

    /// The service answered with an error. The document's own text is for the caller to show.
    #[error("the service answered {status} {code}", status = .0.status, code = .0.code)]
    Problem(Box<ProblemDocument>),
}

impl ClientError {
    /// Whether the service ended, or is about to, without having taken the call.
    pub fn is_of_a_stopping_service(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Problem(problem) => problem.code == Code::ShuttingDown.row().code,
            _ => false,
        }
    }
}

/// A service at a known address.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<Secret>,
}

impl Client {
    /// `base` such as `http://127.0.0.1:7878`. Without a token only the open routes answer.
    pub fn new(base: &str, token: Option<Secret>) -> Result<Self, ClientError> {
        let http = reqwest::Client::builder()
            // The token goes to this service only: neither a proxy of the environment nor a redirect gets it.
            .no_proxy()
            .redirect(redirect::Policy::none())
            // The service speaks plain HTTP: a machine without CA certificates, as a container, needs none.
            .tls_certs_only([])
            .connect_timeout(CONNECT_LIMIT)
            .build()
            .map_err(|source| ClientError::Client { source })?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), token })
    }

    /// `GET path`, the whole answer within `limit`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, ClientError> {
        let url = self.url(path);
        self.answer(self.http.get(&url), url, limit).await
    }

    /// `POST path` with a JSON body, the whole answer within `limit`.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let url = self.url(path);
        self.answer(self.http.post(&url).json(body), url, limit).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        mut request: reqwest::RequestBuilder,
        url: String,
        limit: Duration,
    ) -> Result<T, ClientError> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let failed = |error: reqwest::Error| failure(error.without_url(), &url, limit);
        let response = request.timeout(limit).send().await.map_err(failed)?;
        let (status, is_problem) = (response.status(), is_problem(&response));
        let body = response.bytes().await.map_err(failed)?;
        let not_ours = || ClientError::NotOurs { url: url.clone(), status: status.as_u16() };
        if is_problem {
            let problem = serde_json::from_slice(&body).map_err(|_| not_ours())?;
            return Err(ClientError::Problem(problem));
        }
        if !status.is_success() {
            return Err(not_ours());
        }
        serde_json::from_slice(&body).map_err(|_| not_ours())
    }
}

fn is_problem(response: &Response) -> bool {
    response.headers().get("content-type").is_some_and(|value| value.as_bytes().starts_with(MEDIA_TYPE.as_bytes()))
}

fn failure(source: reqwest::Error, url: &str, limit: Duration) -> ClientError {
    let url = url.to_owned();
    match (source.is_connect(), source.is_timeout()) {
        (true, _) => ClientError::Unreachable { url, source },
        (false, true) => ClientError::TimedOut { url, limit },
        (false, false) => ClientError::Broken { url, source },
    }
}

/// The service that lives in the data directory, if one does; one that is just starting is waited for.
///
/// Only the directory is asked, never a guessed port: whoever else listened there would be given the token.
pub async fn running(config: &Config) -> Result<Option<Client>, CliError> {
    let Some(url) = announced_url(&config.data_dir).await? else { return Ok(None) };
    let tokens = Tokens::load(&config.data_dir, &config.token, &config.approver_token)?;
    Ok(Some(Client::new(&url, Some(tokens.agent))?))
}

/// As [`running`], and none is an error.
pub async fn required(config: &Config) -> Result<Client, CliError> {
    let not_running = || ClientError::NotRunning { data_dir: config.data_dir.clone() };
    Ok(running(config).await?.ok_or_else(not_running)?)
}

async fn announced_url(data_dir: &Path) -> Result<Option<String>, CliError> {
    let started = Instant::now();
    while let Some(found) = holder(data_dir)? {
        match found.url {
            Some(url) => return Ok(Some(url)),
            None if started.elapsed() > START_LIMIT => {
                return Err(ClientError::NotListening { data_dir: data_dir.to_owned(), holder: found }.into());
            }
            None => tokio::time::sleep(START_POLL).await,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
