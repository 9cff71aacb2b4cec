//! What a URL must pass before an engine may open it.

use url::Url;

use super::network::{NetworkPolicy, Refusal};

/// A URL that was decided on. Only [`decide`] and [`decide_url`] make one, and a page is opened with nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    url: Url,
}

impl Cleared {
    /// The URL in its canonical form, which is what the engine must be given.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// Decides on a URL as a caller wrote it.
pub fn decide(policy: &NetworkPolicy, url: &str) -> Result<Cleared, Refusal> {
    decide_url(policy, NetworkPolicy::parse_url(url)?)
}

/// Decides on a URL that is parsed already, such as a hop of a redirect.
pub fn decide_url(policy: &NetworkPolicy, url: Url) -> Result<Cleared, Refusal> {
    policy.check_url(&url)?;
    Ok(Cleared { url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_url_is_the_canonical_one() {
        let cleared = decide(&NetworkPolicy::default(), " HTTP://EXAMPLE.com:80/a/../b ").unwrap();
        assert_eq!(cleared.url().as_str(), "http://example.com/b");
    }

    #[test]
    fn a_hop_is_judged_like_a_callers_url() {
        let policy = NetworkPolicy::default();
        for url in ["http://127.0.0.1/", "file:///etc/passwd", "http://user@example.com/", "http://example.com:25/"] {
            let hop = Url::parse(url).unwrap();
            assert_eq!(decide_url(&policy, hop).unwrap_err(), decide(&policy, url).unwrap_err(), "{url}");
        }
    }
}
