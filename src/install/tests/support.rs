//! What the tests of this module share: a directory with an old binary, and a server of releases.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::stream;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::install::{BINARY_NAME, Channel, Installer, Limits, Platform, Release, Source};

pub const OLD_BINARY: &[u8] = b"the old binary";

/// A program that answers `version` with `9.9.9`.
pub const NEW_BINARY: &str = "#!/bin/sh\ntest \"$1\" = version && echo 9.9.9\n";

/// Writes an executable shell script called `lightpanda` into a directory.
pub fn script(directory: &Path, body: &str) -> PathBuf {
    let path = directory.join(BINARY_NAME);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// A managed directory that holds an old binary and nothing else.
pub fn managed_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(BINARY_NAME), OLD_BINARY).unwrap();
    directory
}

pub fn names_in(directory: &Path) -> Vec<String> {
    let mut names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    names
}

pub fn assert_untouched(directory: &Path, case: &str) {
    assert_eq!(names_in(directory), [BINARY_NAME], "{case}");
    assert_eq!(fs::read(directory.join(BINARY_NAME)).unwrap(), OLD_BINARY, "{case}");
}

pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Generous in time, small in bytes.
pub fn limits() -> Limits {
    Limits { total: Duration::from_secs(30), bytes: 100_000, version: Duration::from_secs(10) }
}

/// What the server answers where the asset should be.
#[derive(Clone)]
pub enum Asset {
    Bytes(Vec<u8>),
    /// Chunks without end and without a content length.
    Endless,
    /// One chunk, then nothing more.
    Stalling,
    /// A redirect to the bytes, `hops` redirects away.
    Moved {
        hops: usize,
        bytes: Vec<u8>,
    },
    MovedTo(&'static str),
    Missing,
}

/// A server of one release, with the paths of the real API.
pub struct Server {
    base: url::Url,
    seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
}

#[derive(Clone)]
struct Site {
    metadata: Value,
    asset: Asset,
    seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
}

impl Server {
    /// Serves an asset under its right digest.
    pub async fn with_asset(asset: Asset) -> Self {
        let bytes = match &asset {
            Asset::Bytes(bytes) | Asset::Moved { bytes, .. } => bytes.as_slice(),
            _ => b"",
        };
        let digest = format!("sha256:{}", sha256(bytes));
        Self::start(asset, json!(digest), Platform::current().unwrap().asset_name()).await
    }

    pub async fn start(asset: Asset, digest: Value, asset_name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = url::Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let asset_url = base.join("asset/0").unwrap();
        let metadata = json!({
            "tag_name": "9.9.9",
            "assets": [
                {"name": "other", "size": 1, "digest": null, "browser_download_url": asset_url},
                {"name": asset_name, "digest": digest, "browser_download_url": asset_url},
            ],
        });
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let site = Site { metadata, asset, seen: Arc::clone(&seen) };
        let router = Router::new().fallback(answer).with_state(site);
        // It ends with the test's runtime.
        TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
        Self { base, seen }
    }

    pub fn release(&self) -> Release {
        Release::new(self.base.clone(), Channel::Stable)
    }

    pub fn installer(&self, directory: &Path) -> Installer {
        Installer::new(directory.to_owned(), Source::Release(self.release())).with_limits(limits())
    }

    /// The paths asked for so far, with the headers of each request.
    pub fn seen(&self) -> Vec<(String, HeaderMap)> {
        self.seen.lock().unwrap().clone()
    }

    /// How often the asset was asked for.
    pub fn downloads(&self) -> usize {
        self.seen().iter().filter(|(path, _)| path.starts_with("/asset/")).count()
    }
}

async fn answer(State(site): State<Site>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    site.seen.lock().unwrap().push((path.clone(), request.headers().clone()));
    if path == "/repos/lightpanda-io/browser/releases/latest" {
        return axum::Json(site.metadata).into_response();
    }
    let Some(hop) = path.strip_prefix("/asset/").and_then(|hop| hop.parse::<usize>().ok()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match site.asset {
        Asset::Bytes(bytes) => bytes.into_response(),
        Asset::Endless => Body::from_stream(stream::repeat_with(|| chunk(10_000))).into_response(),
        Asset::Stalling => {
            let first = stream::iter([chunk(10)]);
            Body::from_stream(stream::StreamExt::chain(first, stream::pending())).into_response()
        }
        Asset::Moved { hops, .. } if hop < hops => Redirect::temporary(&format!("/asset/{}", hop + 1)).into_response(),
        Asset::Moved { bytes, .. } => bytes.into_response(),
        Asset::MovedTo(place) => (StatusCode::FOUND, [(header::LOCATION, place)]).into_response(),
        Asset::Missing => StatusCode::NOT_FOUND.into_response(),
    }
}

fn chunk(bytes: usize) -> Result<Bytes, std::io::Error> {
    Ok(Bytes::from(vec![b'x'; bytes]))
}
