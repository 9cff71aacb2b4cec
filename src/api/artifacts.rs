//! `/v1/artifacts`: whole texts that calls have kept.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ApiState;
use super::extract::{ApiPath, ApiQuery, Representation};
use super::openapi::{ResponseMap, problem_responses};
use super::problem::{Code, Problem};
use crate::app::artifacts::{Artifact, Cursor};
use crate::domain::ids::ArtifactId;
use crate::reader::window;

const DEFAULT_ITEMS: u32 = 50;
const MAX_ITEMS: u32 = 500;
const DEFAULT_CHARS: usize = 50_000;
const MAX_CHARS: usize = 1_000_000;
const MAX_MATCHES: usize = 100;
/// Characters shown on each side of a match.
const MATCH_CONTEXT: usize = 120;
const MAX_NEEDLE: usize = 1024;

/// A kept text, without the text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArtifactDocument {
    #[schema(value_type = String, example = "0123456789abcdef0123456789abcdef")]
    pub id: ArtifactId,
    /// What kept it, such as `fetch`.
    pub kind: String,
    pub url: String,
    pub final_url: String,
    pub title: Option<String>,
    /// Media type of the text.
    pub content_type: String,
    pub format: String,
    pub http_status: Option<u16>,
    /// SHA-256 of its UTF-8 bytes, in hexadecimal.
    pub sha256: String,
    pub bytes: u64,
    pub chars: u64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: jiff::Timestamp,
}

impl From<Artifact> for ArtifactDocument {
    fn from(artifact: Artifact) -> Self {
        Self {
            id: artifact.id,
            kind: artifact.kind,
            url: artifact.url,
            final_url: artifact.final_url,
            title: artifact.title,
            content_type: artifact.content_type,
            format: artifact.format,
            http_status: artifact.http_status,
            sha256: artifact.sha256.to_string(),
            bytes: artifact.bytes,
            chars: artifact.chars,
            created_at: jiff::Timestamp::from_millisecond(artifact.created_at_ms).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArtifactList {
    /// Newest first.
    pub items: Vec<ArtifactDocument>,
    /// For the next page; null on the last.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Default 50.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Which part of a text. `find` and `heading` each stand alone.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ContentQuery {
    /// Characters to skip. Default 0.
    pub offset: Option<usize>,
    /// Characters at most, cut on a line border. Default 50,000.
    #[param(minimum = 1, maximum = 1000000)]
    pub limit: Option<usize>,
    /// Text to look for, whatever its case.
    #[param(min_length = 1, max_length = 1024)]
    pub find: Option<String>,
    /// Title of the one section to read.
    #[param(min_length = 1, max_length = 1024)]
    pub heading: Option<String>,
}

/// A part of a text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ContentDocument {
    #[schema(value_type = String)]
    pub id: ArtifactId,
    pub content: String,
    /// Where `content` begins in the whole text, in characters.
    pub offset: usize,
    /// The `offset` of the next part, counted from the beginning of the section where `heading` was given; null at the
    /// end.
    pub next_offset: Option<usize>,
    /// Characters of the whole text, or of the section.
    pub total_chars: usize,
    /// Where `find` was given: the matches in place of `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<MatchDocument>>,
    /// How many matches there are; the first 100 are in `matches`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_matches: Option<usize>,
}

/// A place where the text was found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MatchDocument {
    /// In characters, from the beginning of the text.
    pub offset: usize,
    /// From 1.
    pub line: usize,
    pub before: String,
    #[serde(rename = "match")]
    pub found: String,
    pub after: String,
}

struct ArtifactProblems;

impl utoipa::IntoResponses for ArtifactProblems {
    fn responses() -> ResponseMap {
        problem_responses(&[Code::NotFound, Code::InvalidField, Code::StorageFull])
    }
}

/// List artifacts, newest first
#[utoipa::path(get, path = "/v1/artifacts", tag = "artifacts", params(ListQuery),
    responses((status = 200, description = "The artifacts", body = ArtifactList), ArtifactProblems))]
pub async fn list(
    State(state): State<Arc<ApiState>>,
    ApiQuery(query): ApiQuery<ListQuery>,
) -> Result<Json<ArtifactList>, Problem> {
    let limit = query.limit.unwrap_or(DEFAULT_ITEMS);
    if !(1..=MAX_ITEMS).contains(&limit) {
        return Err(invalid("limit", "must be from 1 to 500"));
    }
    let cursor = query.cursor.as_deref().map(Cursor::from_str).transpose();
    let cursor = cursor.map_err(|_| invalid("cursor", "is not a cursor of this list"))?;
    let (items, next) = state.artifacts.list(limit, cursor).await?;
    let items = items.into_iter().map(ArtifactDocument::from).collect();
    Ok(Json(ArtifactList { items, next_cursor: next.map(|cursor| cursor.to_string()) }))
}

/// Describe an artifact
#[utoipa::path(get, path = "/v1/artifacts/{id}", tag = "artifacts", params(("id" = String, Path, description = "Artifact id")),
    responses((status = 200, description = "The artifact, without its text", body = ArtifactDocument), ArtifactProblems))]
pub async fn get(
    State(state): State<Arc<ApiState>>,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<ArtifactDocument>, Problem> {
    let artifact = state.artifacts.get(parse(&id)?).await?;
    artifact.map(|artifact| Json(artifact.into())).ok_or_else(not_found)
}

/// Read a part of an artifact
///
/// With `Accept: text/markdown` or `text/plain` the body is that part alone.
#[utoipa::path(get, path = "/v1/artifacts/{id}/content", tag = "artifacts",
    params(("id" = String, Path, description = "Artifact id"), ContentQuery),
    responses((status = 200, description = "The part", content((ContentDocument = "application/json"), (String = "text/markdown"), (String = "text/plain"))), ArtifactProblems))]
pub async fn content(
    State(state): State<Arc<ApiState>>,
    representation: Representation,
    ApiPath(id): ApiPath<String>,
    ApiQuery(query): ApiQuery<ContentQuery>,
) -> Result<Response, Problem> {
    check(&query)?;
    let (artifact, text) = state.artifacts.read(parse(&id)?).await?.ok_or_else(not_found)?;
    let part = part(artifact.id, &text, &query)?;
    Ok(represent(part, representation, &artifact))
}

/// Delete an artifact
#[utoipa::path(delete, path = "/v1/artifacts/{id}", tag = "artifacts", params(("id" = String, Path, description = "Artifact id")),
    responses((status = 204, description = "It is deleted"), ArtifactProblems))]
pub async fn delete(State(state): State<Arc<ApiState>>, ApiPath(id): ApiPath<String>) -> Result<StatusCode, Problem> {
    let is_deleted = state.artifacts.delete(parse(&id)?).await?;
    if is_deleted { Ok(StatusCode::NO_CONTENT) } else { Err(not_found()) }
}

/// An id that is not ours is not looked for.
fn parse(id: &str) -> Result<ArtifactId, Problem> {
    id.parse().map_err(|_| not_found())
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, "There is no artifact with this id.")
        .hint("It may have been deleted by age or by size; GET /v1/artifacts lists what there is.")
}

fn invalid(field: &str, what: &str) -> Problem {
    Problem::new(Code::InvalidField, format!("`{field}` {what}.")).with("field", field)
}

fn check(query: &ContentQuery) -> Result<(), Problem> {
    if query.limit.is_some_and(|limit| !(1..=MAX_CHARS).contains(&limit)) {
        return Err(invalid("limit", "must be from 1 to 1,000,000"));
    }
    for (field, text) in [("find", &query.find), ("heading", &query.heading)] {
        if text.as_ref().is_some_and(|text| text.is_empty() || text.len() > MAX_NEEDLE) {
            return Err(invalid(field, "must have 1 to 1,024 bytes"));
        }
    }
    if query.find.is_some() && query.heading.is_some() {
        return Err(invalid("heading", "cannot stand beside `find`"));
    }
    Ok(())
}

fn part(id: ArtifactId, text: &str, query: &ContentQuery) -> Result<ContentDocument, Problem> {
    if let Some(needle) = &query.find {
        return Ok(matches_of(id, text, needle));
    }
    let (begin, text) = match &query.heading {
        Some(heading) => {
            let section = window::section(text, heading).ok_or_else(|| {
                Problem::new(Code::NotFound, "The text has no section with this heading.")
                    .hint("Read the text from its beginning, or fetch the page with `format: outline`.")
            })?;
            (section.offset, section.content)
        }
        None => (0, text),
    };
    let page = window::page(text, query.offset.unwrap_or(0), query.limit.unwrap_or(DEFAULT_CHARS));
    Ok(ContentDocument {
        id,
        content: page.content.to_owned(),
        offset: begin + page.offset,
        next_offset: page.next_offset,
        total_chars: page.total,
        matches: None,
        total_matches: None,
    })
}

fn matches_of(id: ArtifactId, text: &str, needle: &str) -> ContentDocument {
    let found = window::find(text, needle, MATCH_CONTEXT, MAX_MATCHES);
    let document = |found: &window::Match<'_>| MatchDocument {
        offset: found.offset,
        line: found.line,
        before: found.before.to_owned(),
        found: found.matched.to_owned(),
        after: found.after.to_owned(),
    };
    ContentDocument {
        id,
        content: String::new(),
        offset: 0,
        next_offset: None,
        total_chars: text.chars().count(),
        matches: Some(found.matches.iter().map(document).collect()),
        total_matches: Some(found.total),
    }
}

/// Text from a stranger: a browser that opens it must save it, and never take it for a page of ours.
fn represent(part: ContentDocument, representation: Representation, artifact: &Artifact) -> Response {
    if representation == Representation::Json || part.matches.is_some() {
        return Json(part).into_response();
    }
    let media_type = if representation == Representation::Text || artifact.content_type == "text/html" {
        "text/plain; charset=utf-8".to_owned()
    } else {
        format!("{}; charset=utf-8", artifact.content_type)
    };
    let disposition = "attachment".to_owned();
    ([(CONTENT_TYPE, media_type), (CONTENT_DISPOSITION, disposition)], part.content).into_response()
}
