//! The list of what is measured.

use std::path::Path;

use crate::page::Take;
use crate::process::Failure;
use crate::service::Programs;
use crate::site::Site;
use crate::subject::{BareFetch, BareServe, Chromium, Served, Subject};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Service1,
    Service4,
    /// As [`Variant::Service1`], its pages loaded through the service's own proxy.
    ServiceProxy1,
    Markdown1,
    Markdown4,
    Html1,
    Html4,
    Gated1,
    Gated4,
    /// A process for each page.
    BareFetch,
    /// One tab for all pages.
    ChromiumTab1,
    ChromiumTab4,
    /// A tab for each page.
    ChromiumTabs1,
}

impl Variant {
    pub const ALL: [Self; 13] = [
        Self::Service1,
        Self::Markdown1,
        Self::Html1,
        Self::Gated1,
        Self::ServiceProxy1,
        Self::BareFetch,
        Self::ChromiumTab1,
        Self::ChromiumTabs1,
        Self::Service4,
        Self::Markdown4,
        Self::Html4,
        Self::Gated4,
        Self::ChromiumTab4,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Service1 => "service, 1",
            Self::Service4 => "service, 4",
            Self::ServiceProxy1 => "service by proxy, 1",
            Self::Markdown1 => "bare serve Markdown, 1",
            Self::Markdown4 => "bare serve Markdown, 4",
            Self::Html1 => "bare serve HTML, 1",
            Self::Html4 => "bare serve HTML, 4",
            Self::Gated1 => "bare serve gated HTML, 1",
            Self::Gated4 => "bare serve gated HTML, 4",
            Self::BareFetch => "bare fetch process, 1",
            Self::ChromiumTab1 => "Chromium, one tab, 1",
            Self::ChromiumTab4 => "Chromium, four tabs, 4",
            Self::ChromiumTabs1 => "Chromium, tab a page, 1",
        }
    }

    /// Pages at once.
    pub fn lanes(self) -> usize {
        match self {
            Self::Service4 | Self::Markdown4 | Self::Html4 | Self::Gated4 | Self::ChromiumTab4 => 4,
            _ => 1,
        }
    }

    pub async fn start(self, programs: &Programs, chromium: &Path, site: &Site) -> Result<Box<dyn Subject>, Failure> {
        let (lanes, lightpanda) = (self.lanes(), programs.lightpanda()?);
        let subject: Box<dyn Subject> = match self {
            Self::Service1 | Self::Service4 => Box::new(Served::start(programs, site, lanes, false).await?),
            Self::ServiceProxy1 => Box::new(Served::start(programs, site, lanes, true).await?),
            Self::Markdown1 | Self::Markdown4 => Box::new(BareServe::start(&lightpanda, lanes, Take::Markdown).await?),
            Self::Html1 | Self::Html4 => Box::new(BareServe::start(&lightpanda, lanes, Take::Html).await?),
            Self::Gated1 | Self::Gated4 => Box::new(BareServe::start(&lightpanda, lanes, Take::GatedHtml).await?),
            Self::BareFetch => Box::new(BareFetch::new(&lightpanda, site)?),
            Self::ChromiumTab1 | Self::ChromiumTab4 => Box::new(Chromium::start(chromium, lanes).await?),
            Self::ChromiumTabs1 => Box::new(Chromium::start(chromium, 0).await?),
        };
        Ok(subject)
    }
}
