//! By which names this service may be called. A page that has rebound its own name to our address still sends its name.

/// The `Host` values that are answered; compared byte for byte, so no other spelling of the same address passes.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    exact: Vec<String>,
    any_port: Vec<String>,
}

impl AllowedHosts {
    /// The three loopback names with the bound `port`, and the configured `names`: `name` covers every port and
    /// `name:port` that port only.
    pub fn new(port: u16, names: &[String]) -> Self {
        let loopback = ["127.0.0.1", "[::1]", "localhost"];
        let mut exact: Vec<String> = loopback.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            // A client leaves out the default port of http.
            exact.extend(loopback.map(str::to_owned));
        }
        let (with_port, any_port): (Vec<_>, Vec<_>) =
            names.iter().cloned().partition(|name| split_port(name).is_some());
        exact.extend(with_port);
        Self { exact, any_port }
    }

    pub fn allows(&self, host: &str) -> bool {
        let name = split_port(host).map_or(host, |(name, _)| name);
        self.exact.iter().any(|exact| exact == host) || self.any_port.iter().any(|any_port| any_port == name)
    }
}

/// `name:port` as its two parts; `None` where there is no port. The colons of `[::1]` are no port.
fn split_port(host: &str) -> Option<(&str, u16)> {
    let (name, port) = host.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if digits { port.parse().ok().map(|port| (name, port)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(port: u16, names: &[&str]) -> AllowedHosts {
        AllowedHosts::new(port, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn loopback_is_allowed_with_the_bound_port_only() {
        let hosts = hosts(7878, &[]);
        for good in ["127.0.0.1:7878", "[::1]:7878", "localhost:7878"] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in ["", "127.0.0.1", "localhost", "localhost:7879", "LOCALHOST:7878", "localhost.:7878", "[::1]"] {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn the_default_port_may_be_left_out() {
        assert!(hosts(80, &[]).allows("localhost"));
        assert!(hosts(80, &[]).allows("[::1]:80"));
    }

    #[test]
    fn a_configured_name_covers_every_port_and_a_name_with_a_port_that_port() {
        let hosts = hosts(7878, &["pandarium", "proxy.example:443", "[2001:db8::1]"]);
        for good in ["pandarium", "pandarium:1", "pandarium:65535", "proxy.example:443", "[2001:db8::1]:7878"] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in [
            "proxy.example",
            "proxy.example:444",
            "pandarium:",
            "pandarium:65536",
            "pandarium:1:1",
            "pandarium:+1",
            "pandarium.evil.example",
            "evil-pandarium",
            "user@pandarium",
        ] {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }
}
