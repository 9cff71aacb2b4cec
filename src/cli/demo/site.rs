//! A small site that lives in the binary.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the product list takes on its server, after the page has waited as long to ask for it.
const LATE: Duration = Duration::from_millis(100);

const ARTICLE: &str = include_str!("pages/article.html");
const PRODUCTS: &str = include_str!("pages/products.html");
const PRODUCT_LIST: &str = include_str!("pages/products.json");
const TABLE: &str = include_str!("pages/table.html");
const FORM: &str = include_str!("pages/form.html");
const PAPER: &[u8] = include_bytes!("pages/paper.pdf");

/// Serves the site on a free loopback port until `stop`.
pub async fn serve(tracker: &TaskTracker, stop: CancellationToken) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let serving = axum::serve(listener, router());
    let _task = tracker.spawn(async move {
        // It is only a demonstration: whatever ends it early shows in the next call.
        let _ = stop.run_until_cancelled(serving.into_future()).await;
    });
    Ok(address)
}

fn router() -> Router {
    Router::new()
        .route("/", get(|| async { Html(ARTICLE) }))
        .route("/products.html", get(|| async { Html(PRODUCTS) }))
        .route("/products.json", get(product_list))
        .route("/table.html", get(|| async { Html(TABLE) }))
        .route("/form.html", get(|| async { Html(FORM) }))
        .route("/paper.pdf", get(|| async { ([(CONTENT_TYPE, "application/pdf")], PAPER) }))
        .fallback(|| async { (StatusCode::NOT_FOUND, Html("<h1>No such page</h1><p>Look elsewhere.</p>")) })
}

async fn product_list() -> impl IntoResponse {
    tokio::time::sleep(LATE).await;
    ([(CONTENT_TYPE, "application/json")], PRODUCT_LIST)
}
