use axum::Router;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::api::problem::{Code, Problem};
use crate::config::{self, Environment, GlobalFlags, ServiceFlags};
use crate::store::data_dir::DataDir;

const LIMIT: Duration = Duration::from_secs(5);

/// Runs `client_side` while a server with these routes listens.
async fn with_server<T>(routes: Router, client_side: impl AsyncFnOnce(String) -> T) -> T {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::select! {
        ended = axum::serve(listener, routes).into_future() => panic!("the server ended: {ended:?}"),
        outcome = client_side(base) => outcome,
    }
}

fn client(base: &str) -> Client {
    Client::new(base, Some(Secret::new("the-token"))).unwrap()
}

async fn authorization(headers: HeaderMap) -> String {
    let sent = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    json!({"sent": sent}).to_string()
}

fn problem() -> Response {
    let document = Problem::new(Code::DeadlineExceeded, "Too slow.").document("/v1/fetch", "id-1");
    let body = serde_json::to_vec(&document).unwrap();
    (StatusCode::GATEWAY_TIMEOUT, [(CONTENT_TYPE, MEDIA_TYPE)], body).into_response()
}

#[tokio::test]
async fn the_token_is_sent_and_the_answer_read() {
    let answer: Value = with_server(Router::new().route("/v1/x", get(authorization)), async |base| {
        client(&base).get("/v1/x", LIMIT).await.unwrap()
    })
    .await;
    assert_eq!(answer, json!({"sent": "Bearer the-token"}));
}

#[tokio::test]
async fn a_problem_keeps_its_code() {
    let error = with_server(Router::new().route("/v1/fetch", any(async || problem())), async |base| {
        client(&base).post::<Value>("/v1/fetch", &json!({}), LIMIT).await.unwrap_err()
    })
    .await;
    assert!(matches!(&error, ClientError::Problem(problem) if problem.code == "deadline_exceeded"), "{error}");
    assert_eq!(CliError::from(error).exit_code(), 7);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = async || (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/v1/x")]);
    let routes = Router::new().route("/v1/x", get(authorization)).route("/away", get(elsewhere));
    let error = with_server(routes, async |base| client(&base).get::<Value>("/away", LIMIT).await.unwrap_err()).await;
    assert!(matches!(error, ClientError::NotOurs { status: 307, .. }), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_no_pandarium_s_is_told_apart() {
    let error = with_server(Router::new().route("/readyz", get(async || "<html>")), async |base| {
        client(&base).get::<Value>("/readyz", LIMIT).await.unwrap_err()
    })
    .await;
    assert!(matches!(error, ClientError::NotOurs { status: 200, .. }), "{error}");
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(&base).get::<Value>("/readyz", LIMIT).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_left_at_the_limit() {
    let never = async || std::future::pending::<()>().await;
    let error = with_server(Router::new().route("/readyz", get(never)), async |base| {
        client(&base).get::<Value>("/readyz", Duration::from_millis(100)).await.unwrap_err()
    })
    .await;
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let broken = async || {
        let start = futures_util::stream::iter([Ok("{\"a\""), Err(std::io::Error::other("gone"))]);
        Response::new(Body::from_stream(start.boxed()))
    };
    let error = with_server(Router::new().route("/readyz", get(broken)), async |base| {
        client(&base).get::<Value>("/readyz", LIMIT).await.unwrap_err()
    })
    .await;
    assert!(matches!(error, ClientError::Broken { .. }), "{error}");
}

fn config_in(dir: &TempDir) -> Config {
    let path = dir.path().to_str().unwrap();
    let environment: Environment = [("PANDARIUM_DATA_DIR", path)].into_iter().collect();
    config::load(GlobalFlags::default(), ServiceFlags::default(), &environment).map(|loaded| loaded.config).unwrap()
}

#[tokio::test]
async fn a_running_service_is_found_by_its_data_dir_with_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let config = config_in(&dir);
    assert!(running(&config).await.unwrap().is_none());
    let held = DataDir::open(&config.data_dir).unwrap();
    let tokens = Tokens::load_or_create(&config.data_dir, &config.token, &config.approver_token).unwrap();
    let sent: Value = with_server(Router::new().route("/v1/x", get(authorization)), async |base| {
        held.announce(base.trim_start_matches("http://").parse().unwrap()).unwrap();
        running(&config).await.unwrap().unwrap().get("/v1/x", LIMIT).await.unwrap()
    })
    .await;
    assert_eq!(sent["sent"], format!("Bearer {}", tokens.agent.expose()));
    drop(held);
    assert!(running(&config).await.unwrap().is_none());
    assert!(matches!(required(&config).await, Err(CliError::Client(ClientError::NotRunning { .. }))));
}

#[tokio::test]
async fn a_service_that_is_just_starting_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let config = config_in(&dir);
    let held = DataDir::open(&config.data_dir).unwrap();
    Tokens::load_or_create(&config.data_dir, &config.token, &config.approver_token).unwrap();
    let announce_later = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        held.announce("127.0.0.1:1".parse().unwrap()).unwrap();
    };
    let (found, ()) = tokio::join!(running(&config), announce_later);
    assert_eq!(found.unwrap().unwrap().base, "http://127.0.0.1:1");
}

#[test]
fn only_a_service_that_did_not_take_the_call_is_replaced() {
    let problem = |code| ClientError::Problem(Box::new(Problem::new(code, "").document("/", "")));
    assert!(problem(Code::ShuttingDown).is_of_a_stopping_service());
    assert!(!problem(Code::PoolExhausted).is_of_a_stopping_service());
    assert!(!ClientError::TimedOut { url: String::new(), limit: LIMIT }.is_of_a_stopping_service());
}
