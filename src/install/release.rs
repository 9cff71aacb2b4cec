//! Builds from the release assets of the Lightpanda project.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt;
use url::{Host, Url};

use super::digest::Digest;
use super::error::InstallError;
use super::platform::Platform;
use super::progress::{Phase, Progress};
use super::workspace::Workspace;

/// The API that answers for the releases of the project.
pub const DEFAULT_RELEASES_URL: &str = "https://api.github.com";

/// The metadata of a release has some 50 KB.
const METADATA_LIMIT: u64 = 4 * 1024 * 1024;

const CONNECT_LIMIT: Duration = Duration::from_secs(15);

/// An asset usually takes one redirect, to the store that holds it.
const REDIRECT_LIMIT: usize = 5;

/// A line of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Stable,
    Nightly,
}

/// The newest release of a channel.
#[derive(Clone, Debug)]
pub struct Release {
    base: Url,
    channel: Channel,
}

/// This platform's build in a release.
pub(super) struct Asset {
    /// The release's tag.
    pub release: String,
    pub digest: Digest,
    bytes: Option<u64>,
    url: Url,
    client: Client,
}

/// The metadata of a release, as far as it is used.
#[derive(Deserialize)]
struct Metadata {
    tag_name: String,
    assets: Vec<AssetMetadata>,
}

#[derive(Deserialize)]
struct AssetMetadata {
    name: String,
    size: Option<u64>,
    /// `sha256:` and 64 hexadecimal digits.
    digest: Option<String>,
    browser_download_url: Url,
}

impl Release {
    /// `base` is [`DEFAULT_RELEASES_URL`] or a server with the same paths. Only an http `base` allows http
    /// anywhere later.
    pub fn new(base: Url, channel: Channel) -> Self {
        Self { base, channel }
    }

    /// Reads the metadata of the newest release.
    pub(super) async fn newest(&self) -> Result<Asset, InstallError> {
        let asset_name = Platform::current()?.asset_name();
        let url = self.metadata_url()?;
        let client = self.client()?;
        let body = get(&client, &url).await?;
        let body = read_bounded(body, &url, METADATA_LIMIT).await?;
        let metadata = serde_json::from_slice::<Metadata>(&body)
            .map_err(|source| InstallError::BadMetadata { url: shown(&url), source })?;
        let release = metadata.tag_name;
        let Some(asset) = metadata.assets.into_iter().find(|asset| asset.name == asset_name) else {
            return Err(InstallError::NoAsset { release, asset: asset_name });
        };
        let digest = asset.digest.as_deref().and_then(|digest| digest.strip_prefix("sha256:")?.parse().ok());
        let Some(digest) = digest else {
            return Err(InstallError::NoDigest { release, asset: asset_name });
        };
        let url = permitted(asset.browser_download_url, is_secure(&self.base))?;
        Ok(Asset { release, digest, bytes: asset.size, url, client })
    }

    fn metadata_url(&self) -> Result<Url, InstallError> {
        let mut url = permitted(self.base.clone(), false)?;
        let newest: &[&str] = match self.channel {
            Channel::Stable => &["latest"],
            Channel::Nightly => &["tags", "nightly"],
        };
        // Every http and https URL has path segments.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["repos", "lightpanda-io", "browser", "releases"]).extend(newest);
        }
        Ok(url)
    }

    /// A client without cookies, credentials or a referrer. It has no time limit: the install has one.
    fn client(&self) -> Result<Client, InstallError> {
        let mut builder = Client::builder()
            .user_agent(concat!("pandarium/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .referer(false)
            .redirect(Policy::custom(judge_redirect));
        if is_loopback(&self.base) {
            // A proxy cannot reach a server of this machine.
            builder = builder.no_proxy();
        }
        builder.build().map_err(|source| InstallError::HttpClient { source })
    }
}

impl Asset {
    /// Downloads the asset into the workspace, hashing and counting on the way.
    pub(super) async fn fetch(
        &self,
        workspace: &Workspace,
        limit: u64,
        progress: &dyn Progress,
    ) -> Result<PathBuf, InstallError> {
        progress.phase(Phase::Downloading);
        let mut response = get(&self.client, &self.url).await?;
        let total = response.content_length().or(self.bytes);
        if total.is_some_and(|total| total > limit) {
            return Err(InstallError::TooLarge { limit });
        }
        let (path, file) = workspace.create_binary()?;
        let mut file = tokio::fs::File::from_std(file);
        let mut hasher = Sha256::new();
        let mut done = 0;
        while let Some(chunk) = response.chunk().await.map_err(|source| request_error(&self.url, source))? {
            done += chunk.len() as u64;
            if done > limit {
                return Err(InstallError::TooLarge { limit });
            }
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(InstallError::io("write", &path))?;
            progress.bytes(done, total);
        }
        file.flush().await.map_err(InstallError::io("write", &path))?;
        progress.phase(Phase::Verifying);
        self.verify(Digest::of_hasher(hasher))?;
        Ok(path)
    }

    fn verify(&self, actual: Digest) -> Result<(), InstallError> {
        if actual == self.digest {
            return Ok(());
        }
        Err(InstallError::DigestMismatch { what: "the downloaded asset", expected: self.digest.clone(), actual })
    }
}

async fn get(client: &Client, url: &Url) -> Result<Response, InstallError> {
    let response = client.get(url.clone()).send().await.map_err(|source| request_error(url, source))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(InstallError::HttpStatus { url: shown(url), status: status.as_u16() })
}

async fn read_bounded(mut response: Response, url: &Url, limit: u64) -> Result<Vec<u8>, InstallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|source| request_error(url, source))? {
        body.extend_from_slice(&chunk);
        if body.len() as u64 > limit {
            return Err(InstallError::TooLarge { limit });
        }
    }
    Ok(body)
}

fn request_error(url: &Url, source: reqwest::Error) -> InstallError {
    let url = shown(url);
    // The error's own URL is the last one of a redirect, and its query can hold a signature.
    let source = source.without_url();
    if source.is_redirect() {
        InstallError::RefusedRedirect { url, source }
    } else {
        InstallError::Request { url, source }
    }
}

fn judge_redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    if attempt.previous().len() > REDIRECT_LIMIT {
        return attempt.error("too many redirects");
    }
    let secure = attempt.previous().iter().any(is_secure);
    match permitted(attempt.url().clone(), secure) {
        Ok(_) => attempt.follow(),
        Err(error) => attempt.error(error),
    }
}

/// Passes https, and http where nothing before it was `secure`. A user name would be sent as a credential.
fn permitted(url: Url, secure: bool) -> Result<Url, InstallError> {
    let scheme_fits = is_secure(&url) || (url.scheme() == "http" && !secure);
    if scheme_fits && url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(InstallError::RefusedUrl { url: shown(&url) })
}

fn is_secure(url: &Url) -> bool {
    url.scheme() == "https"
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// A URL for an error message: without user name, password, query and fragment, which can hold secrets.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn the_metadata_url_names_the_channel() {
        let cases = [
            ("https://api.example", Channel::Stable, "https://api.example/repos/lightpanda-io/browser/releases/latest"),
            ("http://h:81/a/", Channel::Nightly, "http://h:81/a/repos/lightpanda-io/browser/releases/tags/nightly"),
        ];
        for (base, channel, expected) in cases {
            assert_eq!(Release::new(url(base), channel).metadata_url().unwrap().as_str(), expected);
        }
    }

    #[test]
    fn an_address_never_falls_back_from_https_and_carries_no_credentials() {
        let cases = [
            ("https://a/", true, true),
            ("https://a/", false, true),
            ("http://a/", false, true),
            ("http://a/", true, false),
            ("ftp://a/", false, false),
            ("file:///a", false, false),
            ("data:text/plain,a", false, false),
            ("https://user@a/", false, false),
            ("https://:word@a/", false, false),
        ];
        for (address, secure, expected) in cases {
            assert_eq!(permitted(url(address), secure).is_ok(), expected, "{address} after secure={secure}");
        }
    }

    #[test]
    fn an_error_shows_no_secret_of_a_url() {
        assert_eq!(shown(&url("https://user:word@a:81/b?signature=c#d")), "https://a:81/b");
    }
}
