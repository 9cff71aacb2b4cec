//! The configuration in force, as a TOML file that means the same.

use toml::Value;

use super::keys::{self, ALL, Default, Key, Kind};
use super::settings::Settings;
use crate::domain::secret::MASK;

/// One line a key: the value with secrets masked, and where it comes from as a comment. An unset key is a comment.
pub fn to_toml(settings: &Settings) -> String {
    ALL.into_iter().map(|key| line(key, settings) + "\n").collect()
}

fn line(key: &Key, settings: &Settings) -> String {
    match settings.get(key) {
        // Not a key of the file: a file cannot name another.
        Some(setting) if key.name == keys::CONFIG.name => format!("# config = {}", quoted(&setting.text)),
        Some(setting) => format!("{} = {}  # {}", key.name, value(key, &setting.text), setting.source.of(key)),
        None => format!("# {} is unset: {}", key.name, unset(key)),
    }
}

fn value(key: &Key, text: &str) -> String {
    match key.kind {
        Kind::Secret(_) => quoted(MASK),
        Kind::Integer { .. } | Kind::Boolean => text.to_owned(),
        Kind::List(_) => {
            let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
            Value::Array(entries.map(Value::from).collect()).to_string()
        }
        Kind::Text(_) | Kind::Choice(_) => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn unset(key: &Key) -> &str {
    match key.default {
        Default::Fixed(text) | Default::Unset(text) | Default::Derived(text, _) => text,
    }
}
