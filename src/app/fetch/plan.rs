//! A checked request: what to load, and what to make of it.

use std::time::Duration;

use serde::Serialize;

use crate::browser::wait::WaitUntil;
use crate::browser::{Cookie, PageOptions};
use crate::reader::{ContentMode, Format};
use crate::store::Digest;

/// Whether the whole text is kept as an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// When the answer holds less than the whole, or a later call may want it (`max_age_s`).
    #[default]
    Auto,
    Always,
    Never,
}

/// What decides which page is loaded and when it is read. Equal loads under way at the same time are one load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadPlan {
    pub url: String,
    pub selector: Option<String>,
    pub wait_until: WaitUntil,
    pub wait_for_selector: Option<String>,
    pub wait_for_script: Option<String>,
    pub settle_ms: u64,
    pub headers: Vec<(String, String)>,
    pub cookies: Vec<PlannedCookie>,
    pub locale: Option<String>,
    pub engine: &'static str,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedCookie {
    pub name: String,
    pub value: String,
    pub domain: Option<String>,
    pub path: Option<String>,
}

/// A whole request.
#[derive(Debug, Clone)]
pub struct Plan {
    pub load: LoadPlan,
    pub format: Format,
    pub content: ContentMode,
    pub max_chars: usize,
    pub max_age: Option<Duration>,
    pub keep: Keep,
}

impl LoadPlan {
    pub fn page_options(&self) -> PageOptions {
        let cookie = |cookie: &PlannedCookie| Cookie {
            name: cookie.name.clone(),
            value: cookie.value.clone(),
            domain: cookie.domain.clone(),
            path: cookie.path.clone(),
        };
        PageOptions {
            headers: self.headers.clone(),
            cookies: self.cookies.iter().map(cookie).collect(),
            locale: self.locale.clone(),
        }
    }

    /// Equal for equal loads. A hash, because headers and cookies hold secrets and the store keeps the key.
    pub fn key(&self) -> String {
        hash(self)
    }
}

impl Plan {
    /// Equal for requests with the same answer, however much of it they want to see.
    pub fn key(&self) -> String {
        hash(&(&self.load, self.format, self.content))
    }
}

fn hash(value: &impl Serialize) -> String {
    // Strings, numbers and lists always serialise; if one day they do not, each request is its own.
    let bytes = serde_json::to_vec(value).unwrap_or_else(|_| rand::random::<[u8; 16]>().to_vec());
    Digest::of(&bytes).to_string()
}
