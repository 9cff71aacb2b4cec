//! What every source says, merged: flags over environment over file over defaults.

use std::collections::BTreeMap;
use std::path::{self, Path, PathBuf};

use super::environment::Environment;
use super::fault::{Fault, Source};
use super::file;
use super::keys::{self, ALL, Default, Key};

/// The value of one key, unchecked.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    /// List entries are joined by commas.
    pub text: String,
    pub source: Source,
}

/// The values of all keys that are set. It holds secrets in the clear, so it has no `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, Setting>,
}

impl Settings {
    /// Reads all sources. The faults are those of the sources themselves: an unreadable file, an unknown key.
    pub fn gather(flags: Vec<(&'static Key, String)>, environment: &Environment) -> (Self, Vec<Fault>) {
        let mut settings = Self::default();
        let mut faults = Vec::new();
        for (key, text) in flags {
            settings.fill(key, text, Source::Flag);
        }
        settings.fill_from_environment(environment, &mut faults);
        settings.fill_from_file(environment, &mut faults);
        settings.fill_defaults(environment);
        settings.make_data_dir_absolute();
        (settings, faults)
    }

    pub fn get(&self, key: &Key) -> Option<&Setting> {
        self.values.get(key.name)
    }

    pub fn text(&self, key: &Key) -> Option<&str> {
        self.get(key).map(|setting| setting.text.as_str())
    }

    /// Where the value of a key comes from; an unset key has its default.
    pub fn source(&self, key: &Key) -> Source {
        self.get(key).map_or(Source::Default, |setting| setting.source.clone())
    }

    /// The value that flag or environment gave, else the default.
    fn early(&self, key: &Key, environment: &Environment) -> Option<String> {
        self.text(key).map(str::to_owned).or_else(|| self.default_of(key, environment))
    }

    /// Sets a key that no stronger source has set.
    fn fill(&mut self, key: &Key, text: String, source: Source) {
        if let Some(key) = ALL.into_iter().find(|known| known.name == key.name) {
            self.values.entry(key.name).or_insert(Setting { text, source });
        }
    }

    fn fill_from_environment(&mut self, environment: &Environment, faults: &mut Vec<Fault>) {
        for key in ALL {
            match environment.get(&key.variable()).map(|value| value.to_str()) {
                Some(Some(text)) => self.fill(key, text.to_owned(), Source::Environment),
                Some(None) => faults.push(Fault::new(key, &Source::Environment, "is not UTF-8 text")),
                None => {}
            }
        }
    }

    /// The named file must exist; the one in the data directory need not.
    fn fill_from_file(&mut self, environment: &Environment, faults: &mut Vec<Fault>) {
        let data_dir = self.early(&keys::DATA_DIR, environment).map(PathBuf::from);
        let named = self.get(&keys::CONFIG).cloned();
        let path = match (&named, &data_dir) {
            (Some(named), _) => PathBuf::from(&named.text),
            (None, Some(data_dir)) => data_dir.join("config.toml"),
            (None, None) => return,
        };
        let read = match file::read(&path, faults) {
            Ok(read) => read,
            Err(error) if error.is_absent() && named.is_none() => return,
            Err(error) => return faults.push(error.into_fault(&named.map_or(Source::Default, |named| named.source))),
        };
        let source = Source::File(path.clone());
        for (key, text) in read {
            if key.name == keys::DATA_DIR.name && named.is_none() && data_dir.as_deref() != Some(Path::new(&text)) {
                let problem = "a file in the data directory cannot move it: name the file with --config instead";
                faults.push(Fault::new(key, &source, problem));
            }
            self.fill(key, text, source.clone());
        }
        self.fill(&keys::CONFIG, path.display().to_string(), Source::Default);
    }

    fn fill_defaults(&mut self, environment: &Environment) {
        for key in ALL {
            if let Some(text) = self.default_of(key, environment) {
                self.fill(key, text, Source::Default);
            }
        }
    }

    fn default_of(&self, key: &Key, environment: &Environment) -> Option<String> {
        match key.default {
            Default::Fixed(text) => Some(text.to_owned()),
            Default::Unset(_) => None,
            Default::Derived(_, derive) => derive(environment, self),
        }
    }

    fn make_data_dir_absolute(&mut self) {
        if let Some(setting) = self.values.get_mut(keys::DATA_DIR.name)
            && let Ok(absolute) = path::absolute(&setting.text)
        {
            setting.text = absolute.display().to_string();
        }
    }
}
