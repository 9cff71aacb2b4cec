use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use tempfile::TempDir;

use super::*;

const OURS: TokenSource = TokenSource::DataDir;
const GIVEN: &str = "given-token-given-token-given-token";

fn root() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn put(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_first_start_makes_owner_only_tokens_and_the_next_ones_keep_them() {
    let root = root();
    let first = Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap();
    for path in [token_path(root.path()), approver_token_path(root.path()), auth_header_path(root.path())] {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
    }
    assert_eq!(first.agent.expose().len(), 43, "256 bits in base64url");
    assert_ne!(first.agent, first.approver);
    assert_eq!(Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap(), first);
    assert_eq!(Tokens::load(root.path(), &OURS, &OURS).unwrap(), first);
    let header = fs::read_to_string(auth_header_path(root.path())).unwrap();
    assert_eq!(header, format!("Authorization: Bearer {}\n", first.agent.expose()));
    let left: HashSet<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, HashSet::from(["token", "approver-token", "auth.header"].map(Into::into)));
}

#[test]
fn sixteen_creators_at_once_get_the_same_tokens() {
    for _ in 0..20 {
        let root = root();
        let made: Vec<Tokens> = thread::scope(|scope| {
            let creators: Vec<_> =
                (0..16).map(|_| scope.spawn(|| Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap())).collect();
            creators.into_iter().map(|creator| creator.join().unwrap()).collect()
        });
        assert!(made.iter().all(|tokens| *tokens == made[0]));
        assert_eq!(Tokens::load(root.path(), &OURS, &OURS).unwrap(), made[0]);
        let header = fs::read_to_string(auth_header_path(root.path())).unwrap();
        assert!(header.contains(made[0].agent.expose()));
    }
}

#[test]
fn a_token_file_that_others_can_read_is_refused() {
    let root = root();
    Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap();
    for (path, mode) in [(token_path(root.path()), 0o644), (approver_token_path(root.path()), 0o640)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let error = Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap_err();
        assert!(matches!(&error, TokenError::OpenToOthers { path: named, .. } if *named == path), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    assert!(Tokens::load_or_create(root.path(), &OURS, &OURS).is_ok());
}

#[test]
fn a_token_that_cannot_be_sent_or_guarded_is_refused_without_being_repeated() {
    let root = root();
    for (text, expected) in [
        ("", UnusableToken::TooShort),
        ("0123456789012345678901234567890", UnusableToken::TooShort),
        ("two words that are more than long enough", UnusableToken::BadCharacter),
        ("=padding-may-only-stand-at-the-end-of-it", UnusableToken::BadCharacter),
    ] {
        put(&token_path(root.path()), text, 0o600);
        let error = Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap_err();
        assert!(matches!(&error, TokenError::Unusable { source, .. } if *source == expected), "{text}: {error:?}");
        assert!(text.is_empty() || !format!("{error:?} {error}").contains(text));
    }
    assert_eq!(check_token(&"a".repeat(32)), Ok(()));
    assert_eq!(check_token("abcdefghijklmnopqrstuvwxyz-._~+/=="), Ok(()));
}

#[test]
fn a_given_token_is_used_and_the_header_file_follows_it() {
    let root = root();
    let own = Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap();
    let value = TokenSource::Value(Secret::new(GIVEN));
    let given = Tokens::load_or_create(root.path(), &value, &OURS).unwrap();
    assert_eq!((given.agent.expose(), &given.approver), (GIVEN, &own.approver));
    assert!(fs::read_to_string(auth_header_path(root.path())).unwrap().contains(GIVEN));
    Tokens::load_or_create(root.path(), &OURS, &OURS).unwrap();
    assert!(fs::read_to_string(auth_header_path(root.path())).unwrap().contains(own.agent.expose()));
}

#[test]
fn a_configured_file_is_read_but_only_init_makes_it() {
    let root = root();
    let path = root.path().join("given");
    let source = TokenSource::File(path.clone());
    let missing = Tokens::load_or_create(root.path(), &source, &OURS).unwrap_err();
    assert!(matches!(missing, TokenError::Missing { .. }), "{missing}");
    let made = Tokens::init(root.path(), &source, &OURS).unwrap();
    assert_eq!(Tokens::load_or_create(root.path(), &source, &OURS).unwrap(), made);
    put(&path, &format!("  {GIVEN}\r\n"), 0o400);
    assert_eq!(Tokens::load(root.path(), &source, &OURS).unwrap().agent.expose(), GIVEN);
}

#[test]
fn loading_writes_nothing() {
    let root = root();
    assert!(matches!(Tokens::load(root.path(), &OURS, &OURS), Err(TokenError::Missing { .. })));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn an_agent_that_has_the_approver_s_token_is_refused() {
    let root = root();
    put(&token_path(root.path()), GIVEN, 0o600);
    put(&approver_token_path(root.path()), GIVEN, 0o600);
    assert!(matches!(Tokens::load(root.path(), &OURS, &OURS), Err(TokenError::Same)));
}
