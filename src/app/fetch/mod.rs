//! Fetch: a page as text, in one call.
//!
//! Equal loads under way at the same time are one load; it ends when the last caller leaves. What a later call may
//! want is kept as an artifact before the answer goes out.

pub mod answer;
pub mod gatekeeper;
pub mod load;
pub mod plan;
mod shared;

use std::sync::Arc;
use std::time::Instant;

use answer::{Answer, ArtifactSummary, EngineUsed, Move, TextWarning, Timings, Warning};
use load::{Body, LoadError, Loaded, Loader};
use plan::{Keep, Plan};
use shared::SharedLoads;

use crate::browser::BrowserError;
use crate::domain::clock;
use crate::domain::deadline::Deadline;
use crate::reader::{self, Format, ReadRequest, ReaderError, text_types, window};
use crate::store::{Artifact, KIND_FETCH, NewArtifact, Store, StoreError};

/// A fetch did not give an answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Read(#[from] ReaderError),
    #[error("the text could not be kept as an artifact")]
    Keep(#[source] StoreError),
    #[error("an earlier artifact could not be looked up")]
    Lookup(#[source] StoreError),
    #[error("{url} answered with {content_type}, which has no {format}")]
    NotAPage { url: String, content_type: String, format: String },
    #[error("reading the page failed inside")]
    Panicked,
}

/// The use case and what it needs.
pub struct Fetcher {
    loads: SharedLoads,
    store: Store,
}

impl Fetcher {
    pub fn new(loader: Loader, store: Store) -> Self {
        Self { loads: SharedLoads::new(Arc::new(loader)), store }
    }

    pub async fn fetch(&self, plan: Plan, deadline: Deadline) -> Result<Answer, FetchError> {
        if let Some(answer) = self.kept_answer(&plan, deadline).await? {
            return Ok(answer);
        }
        let loaded = self.loads.load(&plan.load, deadline).await?;
        let started = Instant::now();
        let (plan, text) = read(plan, Arc::clone(&loaded), deadline).await?;
        let read_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let engine = self.loads.engine();
        let (mut answer, whole) = compose(&plan, &loaded, text, engine, read_ms);
        if is_kept(&plan, &answer) {
            answer.artifact = Some(self.keep(&plan, &answer, whole).await?);
        }
        Ok(timed(answer, deadline))
    }

    /// The newest answer to the same request, if the caller takes one of that age.
    async fn kept_answer(&self, plan: &Plan, deadline: Deadline) -> Result<Option<Answer>, FetchError> {
        let Some(max_age) = plan.max_age else { return Ok(None) };
        let now_ms = clock::now_ms();
        let found = self.store.newest(&plan.key(), max_age, now_ms).await.map_err(FetchError::Lookup)?;
        let Some(artifact) = found else { return Ok(None) };
        let Ok(mut answer) = serde_json::from_str::<Answer>(&artifact.meta) else { return Ok(None) };
        let text = match self.store.read(artifact.id).await {
            Ok(Some((_, text))) => text,
            // Deleted meanwhile, or damaged: the page itself is still there.
            Ok(None) | Err(StoreError::Damaged(_)) => return Ok(None),
            Err(error) => return Err(FetchError::Lookup(error)),
        };
        cut_into(&mut answer, &text, plan.max_chars);
        answer.artifact = Some(summary(&artifact));
        answer.cached = true;
        answer.age_s = u64::try_from((now_ms - artifact.created_at_ms) / 1000).unwrap_or(0);
        answer.timings = Timings::default();
        Ok(Some(timed(answer, deadline)))
    }

    async fn keep(&self, plan: &Plan, answer: &Answer, text: String) -> Result<ArtifactSummary, FetchError> {
        let meta = Answer { content: String::new(), ..answer.clone() };
        let new = NewArtifact {
            kind: KIND_FETCH.to_owned(),
            request_key: plan.key(),
            url: answer.url.clone(),
            final_url: answer.final_url.clone(),
            title: answer.title.clone(),
            content_type: media_type(plan.format).to_owned(),
            format: name_of(&plan.format),
            http_status: Some(answer.http_status),
            text,
            meta: serde_json::to_string(&meta).unwrap_or_default(),
        };
        let kept = self.store.put(new, clock::now_ms()).await.map_err(FetchError::Keep)?;
        Ok(summary(&kept))
    }
}

fn is_kept(plan: &Plan, answer: &Answer) -> bool {
    match plan.keep {
        Keep::Always => true,
        Keep::Never => false,
        Keep::Auto => answer.truncated || plan.max_age.is_some(),
    }
}

fn summary(artifact: &Artifact) -> ArtifactSummary {
    ArtifactSummary {
        id: artifact.id,
        sha256: artifact.sha256.to_string(),
        bytes: artifact.bytes,
        chars: artifact.chars,
    }
}

fn timed(mut answer: Answer, deadline: Deadline) -> Answer {
    answer.elapsed_ms = u64::try_from(deadline.elapsed().as_millis()).unwrap_or(u64::MAX);
    answer.timeout_ms = u64::try_from(deadline.timeout().as_millis()).unwrap_or(u64::MAX);
    answer
}

/// What was made of a page.
struct Text {
    content: String,
    title: Option<String>,
    lang: Option<String>,
    mode_used: String,
    coverage: Option<reader::Coverage>,
    links: Option<Vec<reader::PageLink>>,
    warnings: Vec<Warning>,
}

/// Converts the page, on a thread that may take its time.
async fn read(plan: Plan, loaded: Arc<Loaded>, deadline: Deadline) -> Result<(Plan, Text), FetchError> {
    let work = tokio::task::spawn_blocking(move || {
        let text = match &loaded.body {
            Body::Page(capture) => page_text(&plan, capture),
            Body::Text { kind, text } => verbatim(&plan, &loaded, *kind, text),
        };
        text.map(|text| (plan, text))
    });
    match tokio::time::timeout_at(deadline.at().into(), work).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => Err(FetchError::Panicked),
        Err(_) => Err(LoadError::Browser(BrowserError::DeadlineExceeded { step: "converting the page" }).into()),
    }
}

fn page_text(plan: &Plan, capture: &reader::PageCapture) -> Result<Text, FetchError> {
    let reading = reader::read(capture, &ReadRequest { format: plan.format, content: plan.content })?;
    Ok(Text {
        warnings: reading.warnings.into_iter().map(Warning::Page).collect(),
        content: reading.content,
        title: Some(reading.title).filter(|title| !title.is_empty()),
        lang: reading.lang,
        mode_used: name_of(&reading.mode_used),
        coverage: Some(reading.coverage),
        links: (plan.format == Format::Links).then_some(reading.links),
    })
}

/// A response that is a text by itself comes as it is.
fn verbatim(plan: &Plan, loaded: &Loaded, kind: text_types::Kind, text: &str) -> Result<Text, FetchError> {
    if matches!(plan.format, Format::Links | Format::Outline | Format::StructuredData) {
        let content_type = loaded.content_type.clone().unwrap_or_else(|| "no content type".to_owned());
        let (url, format) = (loaded.final_url.to_string(), name_of(&plan.format));
        return Err(FetchError::NotAPage { url, content_type, format });
    }
    let form = if plan.format == Format::Markdown { text_types::Format::Markdown } else { text_types::Format::Plain };
    let rendered = text_types::render(kind, text, form);
    let as_is = rendered.as_is.map(|reason| match reason {
        text_types::AsIs::InvalidJson => TextWarning::InvalidJson,
        text_types::AsIs::NestedTooDeeply => TextWarning::JsonNotIndented,
    });
    let unused = plan.load.selector.is_some().then_some(TextWarning::SelectorUnused);
    let warnings = as_is.into_iter().chain(unused).map(Warning::Text).collect();
    Ok(Text {
        content: rendered.text,
        title: None,
        lang: None,
        mode_used: "verbatim".to_owned(),
        coverage: None,
        links: None,
        warnings,
    })
}

/// The answer with the beginning of the text, and the whole text.
fn compose(plan: &Plan, loaded: &Loaded, text: Text, engine: EngineUsed, read_ms: u64) -> (Answer, String) {
    let moved = |redirect: &crate::browser::Redirect| Move { url: redirect.from.to_string(), status: redirect.status };
    let mut answer = Answer {
        url: plan.load.url.clone(),
        final_url: loaded.final_url.to_string(),
        redirects: loaded.redirects.iter().map(moved).collect(),
        http_status: loaded.http_status,
        content_type: loaded.content_type.clone(),
        encoding: loaded.encoding.clone(),
        title: text.title,
        lang: text.lang,
        format: plan.format,
        content: String::new(),
        chars: 0,
        total_chars: 0,
        est_tokens: 0,
        truncated: false,
        links: text.links,
        mode_used: text.mode_used,
        coverage: text.coverage,
        wait_outcome: loaded.wait.clone(),
        artifact: None,
        engine,
        cached: false,
        age_s: 0,
        elapsed_ms: 0,
        timeout_ms: 0,
        timings: Timings { load: loaded.timings, read_ms },
        warnings: text.warnings,
    };
    cut_into(&mut answer, &text.content, plan.max_chars);
    (answer, text.content)
}

/// Puts the beginning of the text into the answer.
fn cut_into(answer: &mut Answer, text: &str, max_chars: usize) {
    let cut = window::cut(text, max_chars);
    answer.chars = cut.chars;
    answer.total_chars = if cut.truncated { text.chars().count() } else { cut.chars };
    answer.truncated = cut.truncated;
    answer.est_tokens = window::estimate_tokens(cut.content);
    answer.content = cut.content.to_owned();
}

fn media_type(format: Format) -> &'static str {
    match format {
        Format::Markdown | Format::Links | Format::Outline => "text/markdown",
        Format::Html => "text/html",
        Format::Text => "text/plain",
        Format::StructuredData => "application/json",
    }
}

/// The name that a value has on the wire.
fn name_of(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
