use std::fs;
use std::time::Duration;

use super::support::*;
use crate::domain::ids::SessionId;
use crate::store::{Checkpoint, EndState, MAX_SAVED_BYTES, NewSession, SessionState, Store, StoreError};

const COOKIES: &str = r#"{"cookies":[{"name":"sid","value":"a-cookie-that-must-go"}]}"#;

fn new() -> NewSession {
    NewSession {
        engine: "lightpanda".to_owned(),
        profile: Some("work".to_owned()),
        options: r#"{"headers":{"authorization":"Bearer a-token-that-must-go"}}"#.to_owned(),
        idle_timeout: Duration::from_secs(1800),
        expires_at_ms: NOW + 86_400_000,
    }
}

fn at(url: &str, saved: Option<&str>, next_ref: u64) -> Checkpoint {
    let last_used_at_ms = NOW + 1000;
    Checkpoint { url: Some(url.to_owned()), saved: saved.map(str::to_owned), next_ref, last_used_at_ms }
}

async fn next_ref(store: &Store, id: SessionId) -> u64 {
    store.session(id).await.unwrap().unwrap().next_ref
}

#[tokio::test]
async fn a_session_is_read_back_as_it_was_created_and_as_it_went_on() {
    let (_dir, store) = fresh().await;
    let created = store.create_session(new(), NOW).await.unwrap();
    assert_eq!(store.session(created.id).await.unwrap().as_ref(), Some(&created));
    assert_eq!((created.state, created.next_ref, created.last_used_at_ms), (SessionState::Open, 1, NOW));
    store.checkpoint_session(created.id, &at("http://site.example/", Some(COOKIES), 7), NOW + 1500).await.unwrap();
    let mut expected = created;
    expected.url = Some("http://site.example/".to_owned());
    expected.saved = Some(COOKIES.to_owned());
    (expected.saved_at_ms, expected.next_ref, expected.last_used_at_ms) = (Some(NOW + 1500), 7, NOW + 1000);
    assert_eq!(store.session(expected.id).await.unwrap().as_ref(), Some(&expected));
    // What a checkpoint does not name stays.
    let bare = Checkpoint { url: None, saved: None, next_ref: 7, last_used_at_ms: NOW + 2000 };
    store.checkpoint_session(expected.id, &bare, NOW + 2500).await.unwrap();
    expected.last_used_at_ms = NOW + 2000;
    assert_eq!(store.session(expected.id).await.unwrap(), Some(expected));
}

#[tokio::test]
async fn the_next_ref_and_the_last_use_never_go_backwards() {
    let (_dir, store) = fresh().await;
    let id = store.create_session(new(), NOW).await.unwrap().id;
    for (given, kept) in [(40, 40), (7, 40), (0, 40), (41, 41)] {
        store.checkpoint_session(id, &at("http://site.example/", None, given), NOW).await.unwrap();
        assert_eq!(next_ref(&store, id).await, kept);
    }
    let earlier = Checkpoint { last_used_at_ms: NOW - 1, ..at("http://site.example/", None, 1) };
    store.checkpoint_session(id, &earlier, NOW).await.unwrap();
    assert_eq!(store.session(id).await.unwrap().unwrap().last_used_at_ms, NOW + 1000);
}

#[tokio::test]
async fn a_checkpoint_never_opens_an_ended_session_and_the_first_end_counts() {
    let (_dir, store) = fresh().await;
    for end in [EndState::Closed, EndState::Expired, EndState::Lost] {
        let id = store.create_session(new(), NOW).await.unwrap().id;
        store.checkpoint_session(id, &at("http://site.example/", Some(COOKIES), 7), NOW).await.unwrap();
        store.end_session(id, end, Some("why"), NOW + 5).await.unwrap();
        let ended = store.session(id).await.unwrap().unwrap();
        assert_eq!((ended.state, ended.reason.as_deref()), (SessionState::Ended(end), Some("why")));
        assert_eq!((ended.ended_at_ms, ended.options.as_str()), (Some(NOW + 5), "{}"));
        assert_eq!((&ended.url, &ended.saved, ended.saved_at_ms), (&None, &None, None));
        store.checkpoint_session(id, &at("http://late.example/", Some(COOKIES), 99), NOW + 6).await.unwrap();
        store.end_session(id, EndState::Closed, None, NOW + 7).await.unwrap();
        assert_eq!(store.session(id).await.unwrap(), Some(ended));
    }
    assert!(store.open_sessions().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_unknown_session_is_nothing() {
    let (_dir, store) = fresh().await;
    let unknown = SessionId::random();
    store.checkpoint_session(unknown, &at("http://site.example/", Some(COOKIES), 2), NOW).await.unwrap();
    store.end_session(unknown, EndState::Lost, None, NOW).await.unwrap();
    assert_eq!(store.session(unknown).await.unwrap(), None);
    assert!(store.open_sessions().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_state_up_to_the_limit_is_kept_and_a_larger_one_changes_nothing() {
    let (_dir, store) = fresh().await;
    let id = store.create_session(new(), NOW).await.unwrap().id;
    let largest = filler(1, MAX_SAVED_BYTES);
    store.checkpoint_session(id, &at("http://a.example/", Some(&largest), 5), NOW).await.unwrap();
    let before = store.session(id).await.unwrap().unwrap();
    assert!(before.saved.as_ref() == Some(&largest));
    let larger = at("http://b.example/", Some(&filler(2, MAX_SAVED_BYTES + 1)), 6);
    let refused = store.checkpoint_session(id, &larger, NOW + 1).await;
    let expected = (MAX_SAVED_BYTES + 1, MAX_SAVED_BYTES);
    assert!(matches!(refused, Err(StoreError::StateTooLarge { bytes, limit }) if (bytes, limit) == expected));
    assert!(store.session(id).await.unwrap().unwrap() == before);
}

#[tokio::test]
async fn only_sessions_that_ended_before_the_moment_are_forgotten() {
    let (_dir, store) = fresh().await;
    let open = store.create_session(new(), NOW - 1_000_000).await.unwrap().id;
    let mut ended = Vec::new();
    for at in [NOW - 2, NOW - 1, NOW] {
        let id = store.create_session(new(), NOW - 10).await.unwrap().id;
        store.end_session(id, EndState::Expired, None, at).await.unwrap();
        ended.push(id);
    }
    assert_eq!(store.forget_sessions_ended_before(NOW - 1).await.unwrap(), 1);
    assert_eq!(store.session(ended[0]).await.unwrap(), None);
    assert_eq!(store.forget_sessions_ended_before(i64::MAX).await.unwrap(), 2);
    assert_eq!(store.open_sessions().await.unwrap().iter().map(|row| row.id).collect::<Vec<_>>(), [open]);
}

#[tokio::test]
async fn open_sessions_and_their_state_outlive_a_kill() {
    let (dir, store) = fresh().await;
    let mut open = Vec::new();
    for index in 0..5 {
        let id = store.create_session(new(), NOW + index).await.unwrap().id;
        store.checkpoint_session(id, &at("http://site.example/", Some(COOKIES), 7), NOW).await.unwrap();
        open.push(store.session(id).await.unwrap().unwrap());
    }
    store.end_session(open.remove(2).id, EndState::Closed, None, NOW).await.unwrap();
    // The process has the files open, and closes nothing.
    let killed = copy_of(dir.path());
    let reopened = Store::open(killed.path()).await.unwrap();
    assert_eq!(reopened.open_sessions().await.unwrap(), open);
}

#[tokio::test]
async fn a_log_cut_anywhere_leaves_each_session_as_it_was_at_some_moment() {
    let (dir, store) = fresh().await;
    let mut ids = Vec::new();
    for index in 0..4 {
        let id = store.create_session(new(), NOW + index).await.unwrap().id;
        store.checkpoint_session(id, &at("http://site.example/", Some(&filler(1, 9000)), 7), NOW).await.unwrap();
        ids.push(id);
    }
    let log = fs::read(dir.path().join("pandarium.db-wal")).unwrap();
    let mut open_before = 0;
    for cut in (0..log.len()).step_by(4096).chain([log.len()]) {
        let copy = copy_of(dir.path());
        fs::write(copy.path().join("pandarium.db-wal"), &log[..cut]).unwrap();
        let store = Store::open(copy.path()).await.unwrap_or_else(|error| panic!("cut at {cut}: {error:?}"));
        let open = store.open_sessions().await.unwrap();
        assert_eq!(open.iter().map(|row| row.id).collect::<Vec<_>>(), ids[..open.len()], "cut at {cut}");
        for row in &open {
            let whole = (row.saved.as_ref().map(String::len), row.next_ref);
            assert!(matches!(whole, (None, 1) | (Some(9000), 7)), "cut at {cut}: {whole:?}");
        }
        assert!(open.len() >= open_before);
        open_before = open.len();
    }
    assert_eq!(open_before, ids.len());
}

#[tokio::test]
async fn only_checkpoints_do_without_waiting_for_the_disk() {
    // <https://www.sqlite.org/pragma.html#pragma_synchronous>: 1 is NORMAL, 2 is FULL.
    let (_dir, store) = fresh().await;
    for (pool, expected) in [(&store.pool, 2), (&store.checkpoints, 1)] {
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(pool).await.unwrap();
        assert_eq!(synchronous, expected);
    }
}

#[tokio::test]
async fn nothing_secret_of_an_ended_session_stays_on_the_disk() {
    let (dir, store) = fresh().await;
    let id = store.create_session(new(), NOW).await.unwrap().id;
    // Large enough for pages of its own, which are freed.
    let large = COOKIES.replace("a-cookie", &format!("{}a-cookie", filler(3, 20_000)));
    for saved in [COOKIES, &large, COOKIES] {
        store.checkpoint_session(id, &at("http://secret.example/", Some(saved), 7), NOW).await.unwrap();
    }
    store.end_session(id, EndState::Closed, None, NOW).await.unwrap();
    // Closing moves what the log holds into the database, and removes the log.
    store.close().await;
    for (path, bytes) in files(dir.path()) {
        for secret in ["that-must-go", "secret.example", "00000003"] {
            let found = memchr::memmem::find(&bytes, secret.as_bytes());
            assert_eq!(found, None, "{secret} is in {}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn checkpoints_and_artifacts_written_at_once_all_arrive() {
    let (_dir, store) = fresh().await;
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..20 {
        let store = store.clone();
        tasks.spawn(async move {
            let id = store.create_session(new(), NOW).await.unwrap().id;
            for next_ref in 2..12 {
                store.checkpoint_session(id, &at("http://site.example/", Some(COOKIES), next_ref), NOW).await.unwrap();
                store.put(text(&filler(index * 100 + next_ref as usize, 100)), NOW).await.unwrap();
            }
            assert_eq!(next_ref(&store, id).await, 11);
        });
    }
    tasks.join_all().await;
    assert_eq!(store.open_sessions().await.unwrap().len(), 20);
    assert_eq!(all(&store).await.len(), 200);
}
