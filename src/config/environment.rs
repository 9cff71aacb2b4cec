//! The only reader of the process environment.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};

/// The variables of the process, read once.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self(env::vars_os().collect())
    }

    /// A variable; one that is set to nothing counts as unset, as a compose file passes it on.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// `PATH`: the directories in which commands are looked for.
    pub fn search_path(&self) -> Option<OsString> {
        self.get("PATH").map(OsStr::to_owned)
    }

    /// `$XDG_DATA_HOME`, else `~/.local/share`. The XDG specification has relative paths ignored.
    pub fn data_home(&self) -> Option<String> {
        let absolute = |name| self.get(name).and_then(OsStr::to_str).filter(|path| path.starts_with('/'));
        absolute("XDG_DATA_HOME")
            .map(str::to_owned)
            .or_else(|| absolute("HOME").map(|home| format!("{}/.local/share", home.trim_end_matches('/'))))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
