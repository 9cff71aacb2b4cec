//! What a fetched page may request, and which responses it gets to see.

use std::sync::{Arc, Mutex, PoisonError};

use crate::browser::{BodyVerdict, Gatekeeper, HeadVerdict, ResponseHead};
use crate::domain::approval::{self, Cleared};
use crate::domain::network::Refusal;
use crate::egress::outlet::Outlet;
use crate::reader::charset::{self, Decoded};
use crate::reader::text_types::{self, Kind};

/// Decides for one page load.
pub struct FetchGatekeeper {
    outlet: Arc<Outlet>,
    encoding: Mutex<Option<Encoding>>,
}

/// The encoding that a document was read in, and what said so.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Encoding {
    /// Its WHATWG name, such as `windows-1252`.
    pub name: String,
    pub source: charset::Source,
}

impl Encoding {
    pub fn of(decoded: &Decoded) -> Self {
        Self { name: decoded.encoding.to_owned(), source: decoded.source }
    }
}

impl FetchGatekeeper {
    pub fn new(outlet: Arc<Outlet>) -> Self {
        Self { outlet, encoding: Mutex::new(None) }
    }

    /// The encoding of the last document that the top frame got.
    pub fn encoding(&self) -> Option<Encoding> {
        self.encoding.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Gatekeeper for FetchGatekeeper {
    fn request(&self, url: &str) -> Result<Cleared, Refusal> {
        approval::decide(self.outlet.policy(), url)
    }

    fn head(&self, head: &ResponseHead) -> HeadVerdict {
        let is_refusal = self.outlet.reason_in(&head.url, &head.headers).is_some();
        let is_unsupported = content_kind(head, None) == Some(Kind::Unsupported);
        if is_refusal || has_no_content(head.status) || is_attachment(head) || is_unsupported {
            return HeadVerdict::Refuse;
        }
        HeadVerdict::Read
    }

    fn body(&self, head: &ResponseHead, body: &[u8]) -> BodyVerdict {
        if body.is_empty() || !matches!(content_kind(head, Some(body)), Some(Kind::Html | Kind::Xhtml)) {
            return BodyVerdict::Keep;
        }
        let decoded = charset::decide(head.header("content-type"), body);
        if head.is_top {
            *self.encoding.lock().unwrap_or_else(PoisonError::into_inner) = Some(Encoding::of(&decoded));
        }
        // Lightpanda misreads some of the others (UTF-16 by its mark, bytes that nothing names), and UTF-8 never.
        if decoded.encoding == "UTF-8" && decoded.source != charset::Source::Bom {
            return BodyVerdict::Show;
        }
        BodyVerdict::ShowAs(decoded.text)
    }
}

/// What the response holds, by its content type or else by its first bytes; none when neither tells.
pub fn content_kind(head: &ResponseHead, body: Option<&[u8]>) -> Option<Kind> {
    match head.header("content-type") {
        Some(content_type) if !content_type.trim().is_empty() => Some(text_types::classify(content_type)),
        _ => body.map(|body| text_types::classify(text_types::sniff(body))),
    }
}

/// No content, reset content, not modified: the status says that there is no body.
pub fn has_no_content(status: u16) -> bool {
    matches!(status, 204 | 205 | 304)
}

/// The server wants it saved, not shown.
pub fn is_attachment(head: &ResponseHead) -> bool {
    head.header("content-disposition").is_some_and(|value| {
        let kind = value.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("attachment")
    })
}
