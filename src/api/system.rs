//! The service about itself: alive, ready, status, metrics, its own description.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ApiState;
use super::openapi::{document_json, problem_responses};
use super::problem::{Code, Problem};

/// Whether the service can read a page at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// No pooled worker has loaded a page so far.
    Starting,
    /// A pooled worker has really loaded a page.
    Ready,
    /// No worker can, and why; it holds no page text.
    Unavailable {
        reason: String,
    },
    ShuttingDown,
}

/// What `GET /v1/status` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusReport {
    /// The service's version.
    pub version: String,
    /// Whole seconds since the service started.
    pub uptime_s: u64,
    pub engines: Vec<EngineStatus>,
    pub pool: PoolStatus,
    pub store: StoreStatus,
    /// Every limit in force by its configuration key; the end of the key is the unit.
    pub limits: BTreeMap<String, u64>,
    /// What a person should know, such as a missing binary or a sandbox that is off.
    pub warnings: Vec<String>,
}

/// One engine that the configuration names. What is not known is null: nothing was found, or it did not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngineStatus {
    pub name: String,
    pub version: Option<String>,
    pub path: Option<String>,
    /// Of the binary, as lower-case hexadecimal digits.
    pub sha256: Option<String>,
    /// How the binary was found: configured, installed or on the search path.
    pub origin: Option<String>,
    /// A later version that could be installed.
    pub update_available: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolStatus {
    /// Engine processes that run.
    pub workers: u64,
    /// Pages that can be worked on at once.
    pub slots: u64,
    pub idle: u64,
    pub busy: u64,
    /// Slots whose process is not ready yet.
    pub starting: u64,
    /// Calls that wait for a slot.
    pub waiting: u64,
    /// Processes ended by age, pages served or memory, since the start.
    pub recycled: u64,
    /// Processes that ended by themselves, since the start.
    pub crashed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    pub artifacts: u64,
    /// Of all artifacts on disk.
    pub bytes: u64,
}

/// Knows the state of the service. It is implemented where everything is wired.
#[async_trait]
pub trait StatusSource: Send + Sync {
    async fn status(&self) -> StatusReport;
}

/// The answer of `/healthz` and `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` or `ready`.
    pub status: String,
}

impl Health {
    fn new(status: &str) -> Json<Self> {
        Json(Self { status: status.to_owned() })
    }
}

/// The process is alive
///
/// Touches no browser.
#[utoipa::path(get, path = "/healthz", tag = "system", responses((status = 200, description = "Alive", body = Health)))]
pub async fn healthz() -> Json<Health> {
    Health::new("ok")
}

struct ReadyProblems;

impl utoipa::IntoResponses for ReadyProblems {
    fn responses() -> super::openapi::ResponseMap {
        problem_responses(&[Code::EngineUnavailable, Code::ShuttingDown])
    }
}

/// A pooled worker has loaded a page
#[utoipa::path(
    get, path = "/readyz", tag = "system",
    responses((status = 200, description = "Ready", body = Health), ReadyProblems)
)]
pub async fn readyz(State(state): State<Arc<ApiState>>) -> Result<Json<Health>, Problem> {
    match &*state.readiness.borrow() {
        Readiness::Ready => Ok(Health::new("ready")),
        Readiness::Starting => Err(Problem::new(Code::EngineUnavailable, "No worker has loaded a page so far.")),
        Readiness::Unavailable { reason } => Err(Problem::new(Code::EngineUnavailable, reason.as_str())),
        Readiness::ShuttingDown => Err(Problem::new(Code::ShuttingDown, "The service is stopping.")),
    }
}

/// Versions, pool, store and limits
#[utoipa::path(
    get, path = "/v1/status", tag = "system",
    responses((status = 200, description = "The state at this moment", body = StatusReport))
)]
pub async fn status(State(state): State<Arc<ApiState>>) -> Json<StatusReport> {
    Json(state.status.status().await)
}

/// Metrics in the Prometheus text format
#[utoipa::path(
    get, path = "/metrics", tag = "system",
    responses((status = 200, description = "All metrics", body = String, content_type = "text/plain"))
)]
pub async fn metrics(State(state): State<Arc<ApiState>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.metrics.render())
}

/// This document
#[utoipa::path(
    get, path = "/openapi.json", tag = "system",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value, content_type = "application/json"))
)]
pub async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document_json())
}
