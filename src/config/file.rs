//! The configuration file: flat TOML, one key a line.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::fault::{Fault, Source};
use super::keys::{self, ALL, Key, Kind};

/// The file cannot be read as a whole.
#[derive(Debug)]
pub enum FileError {
    Unreadable(PathBuf, io::Error),
    NotToml(PathBuf, String),
}

impl FileError {
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Unreadable(_, error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// The fault of the key `config`, whose value came from `source`.
    pub fn into_fault(self, source: &Source) -> Fault {
        let problem = match self {
            Self::Unreadable(path, error) => format!("{} cannot be read: {error}", path.display()),
            Self::NotToml(path, error) => format!("{} is not TOML: {error}", path.display()),
        };
        Fault::new(&keys::CONFIG, source, problem)
    }
}

/// The values in the file. What is wrong with single keys goes to `faults`.
pub fn read(path: &Path, faults: &mut Vec<Fault>) -> Result<Vec<(&'static Key, String)>, FileError> {
    let unreadable = |error| FileError::Unreadable(path.to_owned(), error);
    let mut text = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut text)).map_err(unreadable)?;
    let table: Table = text.parse().map_err(|error| FileError::NotToml(path.to_owned(), place(&error, &text)))?;
    let source = Source::File(path.to_owned());
    let mut values = Vec::new();
    for (name, value) in &table {
        let Some(key) = ALL.into_iter().find(|key| key.name == name && key.name != keys::CONFIG.name) else {
            faults.push(unknown(name, path));
            continue;
        };
        match text_of(key, value) {
            Some(text) => values.push((key, text)),
            None => faults.push(Fault::new(key, &source, format!("expected {}", toml_type(key)))),
        }
    }
    faults.extend(values.iter().filter(|(key, _)| key.is_secret()).filter_map(|(key, _)| exposed(key, path)));
    Ok(values)
}

/// Where the syntax is wrong, without the line itself, which may hold a secret.
fn place(error: &toml::de::Error, text: &str) -> String {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
    format!("{} in line {line}", error.message())
}

/// The value as a flag would give it.
fn text_of(key: &Key, value: &Value) -> Option<String> {
    match (&key.kind, value) {
        (Kind::Integer { .. }, Value::Integer(number)) => Some(number.to_string()),
        (Kind::Boolean, Value::Boolean(is_on)) => Some(is_on.to_string()),
        (Kind::List(_), Value::Array(entries)) => {
            let entries = entries.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            Some(entries.join(","))
        }
        (Kind::Text(_) | Kind::Secret(_) | Kind::Choice(_), Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

fn toml_type(key: &Key) -> &'static str {
    match key.kind {
        Kind::Integer { .. } => "an integer",
        Kind::Boolean => "true or false",
        Kind::List(_) => "an array of strings",
        Kind::Text(_) | Kind::Secret(_) | Kind::Choice(_) => "a string",
    }
}

/// A file that holds a secret must not be open to others, as a token file must not.
fn exposed(key: &Key, path: &Path) -> Option<Fault> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let problem = format!("the file is open to other users (mode {mode:o}): chmod 600 it, or use {}_file", key.name);
    (mode & 0o077 != 0).then(|| Fault::new(key, &Source::File(path.to_owned()), problem))
}

fn unknown(name: &str, path: &Path) -> Fault {
    let advice = nearest(name).map_or_else(String::new, |key| format!(": did you mean {key}?"));
    Fault {
        key: name.to_owned(),
        source: format!("file {}", path.display()),
        problem: format!("there is no such key{advice}"),
    }
}

/// The key that was probably meant: one that is `name` but for its ending, or is at most a third of the name away.
fn nearest(name: &str) -> Option<&'static str> {
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let names = || ALL.into_iter().map(|key| key.name).filter(|name| *name != keys::CONFIG.name);
    let with_ending =
        names().find(|key| key.strip_prefix(&plain).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')));
    let closest = names().map(|key| (distance(&plain, key), key)).min()?;
    let limit = plain.chars().count().div_ceil(3);
    with_ending.or((closest.0 <= limit).then_some(closest.1))
}

/// The Levenshtein distance: insertions, deletions and replacements that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
