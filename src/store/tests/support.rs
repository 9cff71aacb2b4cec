//! Real data directories for the tests of the store.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::store::{Artifact, Digest, KIND_FETCH, NewArtifact, Store};

pub const NOW: i64 = 1_800_000_000_000;
pub const HOUR: Duration = Duration::from_secs(3600);

pub async fn fresh() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).await.unwrap();
    (dir, store)
}

pub fn text(text: &str) -> NewArtifact {
    NewArtifact {
        kind: KIND_FETCH.to_owned(),
        request_key: "key".to_owned(),
        url: "http://site.example/".to_owned(),
        final_url: "http://site.example/end".to_owned(),
        title: Some("A title".to_owned()),
        content_type: "text/markdown".to_owned(),
        format: "markdown".to_owned(),
        http_status: Some(200),
        text: text.to_owned(),
        meta: r#"{"lang":"en"}"#.to_owned(),
    }
}

/// Text of exactly `bytes` bytes that differs by `seed`.
pub fn filler(seed: usize, bytes: usize) -> String {
    format!("{seed:08}").chars().cycle().take(bytes).collect()
}

pub async fn all(store: &Store) -> Vec<Artifact> {
    let (mut artifacts, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = store.list(7, cursor).await.unwrap();
        artifacts.extend(page);
        match next {
            Some(_) => cursor = next,
            None => return artifacts,
        }
    }
}

/// Every listed artifact can be read, byte for byte.
pub async fn assert_whole(store: &Store) {
    for listed in all(store).await {
        let (artifact, content) = store.read(listed.id).await.unwrap().expect("listed, so there");
        assert_eq!(Digest::of(content.as_bytes()), artifact.sha256);
    }
}

pub fn blob_path(dir: &Path, artifact: &Artifact) -> PathBuf {
    let name = artifact.sha256.to_string();
    dir.join("artifacts").join(&name[..2]).join(name)
}

/// Every file below `dir` with its bytes; a symbolic link counts as its target's name.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.insert(path, target.into_os_string().into_encoded_bytes());
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

pub fn blob_files(dir: &Path) -> Vec<PathBuf> {
    files(&dir.join("artifacts")).into_keys().collect()
}

/// What a power cut would leave: the files as they are, without asking the process that has them open.
pub fn copy_of(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in files(dir) {
        let path = copy.path().join(path.strip_prefix(dir).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    copy
}
