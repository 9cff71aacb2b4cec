//! `pandarium fetch URL`: one page, from a running service or from one that runs for this call.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::client::{self, Client, ClientError};
use super::interrupt::unless_interrupted;
use super::{CliError, engine, output};
use crate::config::{Config, LogConfig};
use crate::serve;
use crate::store::data_dir::tokens::Tokens;
use crate::store::data_dir::{self, holder};
use crate::telemetry;

/// What the service may take beyond the call's own deadline: 10 s to drain when it stops, and some to spare.
const GRACE: Duration = Duration::from_secs(15);

/// Between looks at a data directory whose service is stopping.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The options of `POST /v1/fetch`; what is not given is the service's to decide.
#[derive(Args, Clone, Debug, Serialize)]
pub struct FetchArguments {
    /// The page to read (http or https)
    pub url: String,

    /// What to answer with [default: markdown]
    #[arg(long, value_parser = ["markdown", "html", "text", "links", "outline", "structured_data"])]
    format: Option<String>,

    /// The main content, or everything on the page [default: main]
    #[arg(long, value_parser = ["main", "full"])]
    content: Option<String>,

    /// Only what this CSS selector matches
    #[arg(long, value_name = "CSS")]
    selector: Option<String>,

    /// Which event of the page to wait for
    #[arg(long, value_name = "EVENT")]
    wait_until: Option<String>,

    /// Wait until this CSS selector matches
    #[arg(long, value_name = "CSS")]
    wait_for_selector: Option<String>,

    /// Wait until this JavaScript expression is true
    #[arg(long, value_name = "EXPRESSION")]
    wait_for_script: Option<String>,

    /// How long after load the page may take to settle, in milliseconds
    #[arg(long, value_name = "MS")]
    settle_ms: Option<u64>,

    /// A request header for the page's own origin; repeatable
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header)]
    #[serde(serialize_with = "as_object")]
    headers: Vec<(String, String)>,

    /// A cookie for the page; repeatable
    #[arg(long = "cookie", value_name = "NAME=VALUE", value_parser = cookie)]
    cookies: Vec<Cookie>,

    /// The language that the page is asked for, such as de-CH
    #[arg(long)]
    locale: Option<String>,

    /// The deadline of the call, in milliseconds
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,

    /// Cut the content after so many characters; the full text stays reachable as an artifact
    #[arg(long, value_name = "N")]
    max_chars: Option<u64>,

    /// Take an answer that is at most so many seconds old instead of loading the page
    #[arg(long, value_name = "S")]
    max_age_s: Option<u64>,

    /// Whether the full text is kept; auto keeps it when it is cut
    #[arg(long, value_parser = ["auto", "always", "never"])]
    artifact: Option<String>,

    /// The browser engine [default: lightpanda]
    #[arg(long)]
    engine: Option<String>,

    /// Print the whole answer as JSON, and a problem as JSON on standard error
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Cookie {
    name: String,
    value: String,
}

/// What is printed of the service's answer.
#[derive(Debug, Deserialize)]
struct Answer {
    final_url: String,
    #[serde(default)]
    title: Option<String>,
    content: Value,
    truncated: bool,
    #[serde(default)]
    artifact: Option<Artifact>,
    #[serde(default)]
    warnings: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    id: String,
    chars: u64,
}

/// Reads the page and prints it. `log` is for a service that runs for this call.
pub async fn run(config: &Config, log: &LogConfig, arguments: &FetchArguments) -> Result<(), CliError> {
    let body = arguments.body()?;
    let answer = from_any_service(config, log, &body, arguments.limit(config)).await?;
    if arguments.json {
        return output::line(&format!("{answer:#}"));
    }
    let answer = Answer::deserialize(answer).map_err(|source| CliError::Answer { source })?;
    output::page_text(&answer.page(arguments.is_prose()))?;
    answer.notes().iter().for_each(|note| output::note(note));
    Ok(())
}

/// A service that stops before it takes the call is replaced: another `fetch` may have run it for a call of its own.
async fn from_any_service(config: &Config, log: &LogConfig, body: &Value, limit: Duration) -> Result<Value, CliError> {
    let started = Instant::now();
    while started.elapsed() < GRACE {
        if let Some(answer) = from_one_service(config, log, body, limit).await? {
            return Ok(answer);
        }
        unless_interrupted(async {
            tokio::time::sleep(RETRY_PAUSE).await;
            Ok(())
        })
        .await?;
    }
    Err(ClientError::WentAway { data_dir: config.data_dir.clone() }.into())
}

/// None: the service stopped before it took the call, or another one was quicker to start.
async fn from_one_service(
    config: &Config,
    log: &LogConfig,
    body: &Value,
    limit: Duration,
) -> Result<Option<Value>, CliError> {
    match unless_interrupted(client::running(config)).await? {
        Some(service) => match unless_interrupted(call(&service, body, limit)).await {
            Err(CliError::Client(error)) if error.is_of_a_stopping_service() => Ok(None),
            outcome => outcome.map(Some),
        },
        None => match from_own_service(config, log, body, limit).await {
            Err(CliError::Serve(_)) if holder(&config.data_dir)?.is_some() => Ok(None),
            outcome => outcome.map(Some),
        },
    }
}

async fn call(service: &Client, body: &Value, limit: Duration) -> Result<Value, CliError> {
    Ok(service.post("/v1/fetch", body, limit).await?)
}

/// Runs a service in the same data directory, so that what it keeps is there later, and stops it after the call.
async fn from_own_service(config: &Config, log: &LogConfig, body: &Value, limit: Duration) -> Result<Value, CliError> {
    let mut own = config.clone();
    own.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    own.pool.workers = 1;
    // A second try finds logging set up by the first.
    drop(telemetry::init_logging(&log.filter, log.format));
    engine::ensure(&own).await?;
    let service = unless_interrupted(async { Ok(serve::start(own).await?) }).await?;
    let answer = unless_interrupted(async {
        let tokens = Tokens::load(&config.data_dir, &config.token, &config.approver_token)?;
        let client = Client::new(&data_dir::local_url(service.address()), Some(tokens.agent))?;
        call(&client, body, limit).await
    })
    .await;
    let stopped = service.stop().await;
    let answer = answer?;
    stopped?;
    Ok(answer)
}

impl FetchArguments {
    /// The JSON body: only what was given.
    fn body(&self) -> Result<Value, CliError> {
        let mut body = serde_json::to_value(self).map_err(|source| CliError::Answer { source })?;
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|_, value| !value.is_null() && *value != json!([]) && *value != json!({}));
        }
        Ok(body)
    }

    fn limit(&self, config: &Config) -> Duration {
        self.timeout_ms.map_or(config.fetch.max_timeout, Duration::from_millis).saturating_add(GRACE)
    }

    /// Whether a line above the content does not spoil it.
    fn is_prose(&self) -> bool {
        !matches!(self.format.as_deref(), Some("html" | "structured_data"))
    }
}

impl Answer {
    /// The content; prose stands under one line that names the page.
    fn page(&self, is_prose: bool) -> String {
        let content = match &self.content {
            Value::String(text) => text.trim_end_matches('\n').to_owned(),
            other => format!("{other:#}"),
        };
        if !is_prose {
            return content;
        }
        let title = output::one_line(self.title.as_deref().unwrap_or_default());
        let name = if title.is_empty() { self.final_url.clone() } else { format!("{title} — {}", self.final_url) };
        format!("{name}\n\n{content}")
    }

    /// What the reader must know besides.
    fn notes(&self) -> Vec<String> {
        let warning = |warning: &Value| match warning {
            Value::String(text) => format!("warning: {text}"),
            other => format!("warning: {other}"),
        };
        self.warnings.iter().map(warning).chain(self.cut()).collect()
    }

    fn cut(&self) -> Option<String> {
        if !self.truncated {
            return None;
        }
        let shown = self.content.as_str().map_or(0, |text| text.chars().count());
        Some(match &self.artifact {
            Some(Artifact { id, chars }) => format!(
                "cut: {shown} of {chars} characters; the full text is artifact {id}: GET /v1/artifacts/{id}/content?offset={shown}"
            ),
            None => format!("cut after {shown} characters; nothing was kept: ask for more with --max-chars"),
        })
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME:VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn cookie(text: &str) -> Result<Cookie, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok(Cookie { name: name.trim().to_owned(), value: value.trim().to_owned() })
}

/// One member a name. A name that is given twice gets both values, joined as RFC 9110 section 5.2 has it.
fn as_object<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut headers: Vec<(&str, String)> = Vec::new();
    for (name, value) in pairs {
        match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = format!("{known}, {value}"),
            None => headers.push((name, value.clone())),
        }
    }
    serializer.collect_map(headers)
}

#[cfg(test)]
mod tests;
