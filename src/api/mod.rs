//! HTTP: wire types, statuses, OpenAPI; one file a resource.
//!
//! A request passes, in this order: [`server`] (connection limits), [`frame`] (request id, log, typed errors), the
//! panic catcher, [`guard`] (who may call, how much), the route's handler through the extractors of [`extract`].

use std::sync::Arc;

use axum::{Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::watch;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub mod artifacts;
pub mod connections;
pub mod docs;
pub mod extract;
pub mod faults;
pub mod fetch;
pub mod frame;
pub mod guard;
pub mod hosts;
pub mod openapi;
pub mod problem;
pub mod scripts;
pub mod server;
pub mod system;
#[cfg(test)]
mod tests;
pub mod tokens;

use crate::app::artifacts::Artifacts;
use crate::app::fetch::Fetcher;
use crate::app::scripts::Scripts;
use guard::Guard;
use system::{Readiness, StatusSource};

/// What the handlers work with.
pub struct ApiState {
    pub guard: Arc<Guard>,
    pub status: Arc<dyn StatusSource>,
    pub readiness: watch::Receiver<Readiness>,
    pub metrics: PrometheusHandle,
    pub fetcher: Fetcher,
    pub fetch_limits: fetch::FetchLimits,
    pub artifacts: Arc<Artifacts>,
    pub scripts: Scripts,
    pub script_limits: scripts::ScriptLimits,
}

/// The whole API, ready to be served.
pub fn router(state: ApiState) -> Router {
    let guard = Arc::clone(&state.guard);
    let (api, _document) = routes().split_for_parts();
    layered(api.merge(docs::routes()).with_state(Arc::new(state)), guard)
}

/// Every route that the OpenAPI document describes.
fn routes() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::default()
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(system::openapi))
        .routes(routes!(system::status))
        .routes(routes!(fetch::fetch, fetch::fetch_by_query))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::get, artifacts::delete))
        .routes(routes!(artifacts::content))
        .routes(routes!(scripts::run))
}

/// Every layer, the outermost first. They also cover what has no route.
fn layered(router: Router, guard: Arc<Guard>) -> Router {
    router.layer(
        ServiceBuilder::new()
            .layer(middleware::from_fn(frame::frame))
            .layer(CatchPanicLayer::custom(frame::answer_to_panic))
            .layer(middleware::from_fn_with_state(guard, guard::guard)),
    )
}
