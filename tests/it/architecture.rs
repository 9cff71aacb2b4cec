//! The rules of the house that no compiler checks: who may know whom, and how long a file may be.

use std::path::{Path, PathBuf};

/// Longer files are split by what they do.
const MAX_LINES: usize = 600;

/// A part of `src`, and what its code must not name.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("domain", &["tokio", "async fn", "std::fs", "sqlx", "axum", "crate::api", "crate::app", "crate::browser"]),
    ("domain", &["crate::egress", "crate::reader", "crate::store", "crate::install", "crate::cli", "crate::serve"]),
    ("domain", &["crate::config", "crate::telemetry"]),
    ("browser", &["sqlx", "axum", "crate::api", "crate::app", "crate::egress", "crate::reader", "crate::store"]),
    ("egress", &["sqlx", "axum", "crate::api", "crate::app", "crate::browser", "crate::reader", "crate::store"]),
    (
        "reader",
        &["sqlx", "axum", "tokio", "crate::api", "crate::app", "crate::browser", "crate::egress", "crate::store"],
    ),
    ("store", &["axum", "crate::api", "crate::app", "crate::browser", "crate::egress", "crate::reader"]),
    ("install", &["sqlx", "axum", "crate::api", "crate::app", "crate::browser", "crate::egress", "crate::reader"]),
    ("app", &["sqlx", "axum", "chromiumoxide", "tungstenite", "crate::api", "crate::cli", "crate::serve"]),
    ("api", &["sqlx", "chromiumoxide", "tungstenite", "crate::store", "crate::cli", "crate::serve"]),
    ("api", &["crate::browser::cdp", "crate::browser::pool", "crate::browser::worker", "crate::browser::lightpanda"]),
    ("api", &["crate::browser::gate"]),
    ("cli", &["sqlx", "chromiumoxide", "tungstenite", "crate::browser"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file with this ending below a folder.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path);
            }
        }
    }
    found
}

/// The code of a file: without comments, and without its tests, which may reach for anything. What it imports in groups
/// stands at its end once more, path by path.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let imported = imports(&code).join("\n");
    format!("{code}\n{imported}")
}

/// Every path that a `use` names: `use a::{b, c::{d, e}};` gives `a::b`, `a::c::d` and `a::c::e`.
fn imports(code: &str) -> Vec<String> {
    let uses = code.split(';').filter_map(|item| item.rsplit_once("use ")).map(|(_, tree)| tree);
    uses.flat_map(|tree| paths(&tree.split_whitespace().collect::<String>())).collect()
}

fn paths(tree: &str) -> Vec<String> {
    let Some((head, group)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let group = group.strip_suffix('}').unwrap_or(group);
    branches(group).into_iter().flat_map(paths).map(|path| format!("{head}{path}")).collect()
}

/// Splits at the commas that stand in no group.
fn branches(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = group.split(move |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// `tokio` stands in `tokio::spawn`, not in `tokio_util_like`.
fn names(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[test]
fn each_layer_names_only_those_below_it() {
    let mut faults = Vec::new();
    for (layer, forbidden) in FORBIDDEN {
        for path in files(&root().join("src").join(layer), "rs").into_iter().filter(|path| !is_test(path)) {
            let code = code(&path);
            let named = forbidden.iter().filter(|word| names(&code, word));
            faults.extend(named.map(|word| format!("{} names {word}", path.display())));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn one_module_speaks_sql_and_one_speaks_websocket() {
    for path in files(&root().join("src"), "rs") {
        let place = path.strip_prefix(root().join("src")).unwrap();
        let code = code(&path);
        assert!(!names(&code, "sqlx") || place.starts_with("store"), "{} names sqlx", place.display());
        let speaks = names(&code, "tokio_tungstenite");
        assert!(!speaks || place == Path::new("browser/cdp.rs"), "{} names tokio_tungstenite", place.display());
    }
}

#[test]
fn no_file_is_too_long() {
    for folder in ["src", "tests", "benches"] {
        for ending in ["rs", "js"] {
            for path in files(&root().join(folder), ending) {
                let lines = std::fs::read_to_string(&path).unwrap().lines().count();
                assert!(lines <= MAX_LINES, "{} has {lines} lines", path.display());
            }
        }
    }
}

#[test]
fn javascript_stands_in_files_of_its_own() {
    for path in files(&root().join("src"), "rs").into_iter().filter(|path| !is_test(path)) {
        let code = code(&path);
        for sign in ["document.querySelector", "addEventListener", "globalThis", "getComputedStyle"] {
            assert!(!code.contains(sign), "{} holds JavaScript: {sign}", path.display());
        }
    }
}

#[test]
fn a_lint_is_expected_with_a_reason_and_never_allowed() {
    for folder in ["src", "tests", "benches"] {
        for path in files(&root().join(folder), "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            // Written in two parts, so that this file passes its own test.
            for sign in [concat!("#[", "allow("), concat!("#[", "ignore"), concat!("todo", "!("), concat!("dbg", "!(")]
            {
                assert!(!text.contains(sign), "{} has {sign}", path.display());
            }
        }
    }
}

#[test]
fn a_layer_that_is_not_named_is_not_guessed() {
    assert!(names("use sqlx::Row;", "sqlx") && names("tokio::spawn(x)", "tokio"));
    assert!(!names("tokio_util::sync", "tokio") && !names("let mysqlx = 1;", "sqlx"));
}

#[test]
fn a_layer_that_is_imported_in_a_group_is_seen() {
    let code = "use std::fmt;\npub use crate::{\n    app::{artifacts, fetch::load},\n    store,\n};\nfn f() {}";
    let expected = ["std::fmt", "crate::app::artifacts", "crate::app::fetch::load", "crate::store"];
    assert_eq!(imports(code), expected);
}
