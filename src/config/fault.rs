//! What is wrong with a configuration.

use std::fmt;
use std::path::PathBuf;

use super::keys::Key;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Flag,
    Environment,
    File(PathBuf),
    Default,
}

impl Source {
    /// The source as a person would look for it: `flag --listen`.
    pub fn of(&self, key: &Key) -> String {
        match self {
            Self::Flag => format!("flag {}", key.flag()),
            Self::Environment => format!("environment {}", key.variable()),
            Self::File(path) => format!("file {}", path.display()),
            Self::Default => "default".to_owned(),
        }
    }
}

/// One thing that is wrong: which key, set where, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub key: String,
    /// As [`Source::of`] gives it.
    pub source: String,
    pub problem: String,
}

impl Fault {
    pub fn new(key: &Key, source: &Source, problem: impl Into<String>) -> Self {
        Self { key: key.name.to_owned(), source: source.of(key), problem: problem.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.key, self.source, self.problem)
    }
}

/// Everything that is wrong with the configuration, at least one fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}
