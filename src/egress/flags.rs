//! Lightpanda's network flags.
//!
//! Measured on 1.0.2: the order of the flags does not matter, a range with a leading `-` is open whatever blocks it, and
//! `--block-private-networks` alone leaves documentation ranges, 192.88.99.0/24, 6to4, Teredo, 100::/64 and everything
//! that nobody was given open. So every range that the policy refuses is named.

use ipnet::IpNet;

use crate::domain::network::{NetworkPolicy, special_ranges};

use super::proxy::ProxyClient;

/// The flags of a worker that connects by itself. It may reach public addresses and the trusted ranges, on every port:
/// use it only where [`NetworkPolicy::needs_proxy`] is false.
pub fn direct(policy: &NetworkPolicy) -> Vec<String> {
    block(policy.trusted())
}

/// The flags of a worker whose traffic goes through the proxy, which judges every connection.
///
/// The engine looks at the proxy's address only, so its own filter opens that one: it is left to stop whatever would go
/// round the proxy. The worker's environment must not hold `NO_PROXY`, which the engine obeys.
pub fn proxied(client: &ProxyClient) -> Vec<String> {
    let mut flags = block(&[IpNet::from(client.proxy_address().ip())]);
    flags.extend(["--http-proxy".to_owned(), client.url()]);
    flags
}

/// Everything that is not public is blocked, but for the `opened` ranges.
fn block(opened: &[IpNet]) -> Vec<String> {
    let blocked = special_ranges().map(|range| spelled_out(&range));
    let opened = opened.iter().map(|range| format!("-{}", spelled_out(range)));
    let ranges = blocked.chain(opened).flat_map(|range| ["--block-cidrs".to_owned(), range]);
    std::iter::once("--block-private-networks".to_owned()).chain(ranges).collect()
}

/// A range with all eight groups of an IPv6 address: the engine exits with `InvalidCidr` on `::ffff:0:0:0/96`.
fn spelled_out(range: &IpNet) -> String {
    match range {
        IpNet::V4(range) => range.to_string(),
        IpNet::V6(range) => {
            let groups = range.network().segments().map(|group| format!("{group:x}"));
            format!("{}/{}", groups.join(":"), range.prefix_len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_worker_blocks_every_special_range_and_opens_the_trusted_ones() {
        let flags = direct(&NetworkPolicy::new(vec!["198.18.0.0/15".parse().unwrap()], Vec::new()));
        assert!(flags.contains(&"--block-private-networks".to_owned()));
        let ranges: Vec<_> =
            flags.windows(2).filter(|pair| pair[0] == "--block-cidrs").map(|pair| pair[1].as_str()).collect();
        // What `--block-private-networks` leaves open.
        for gap in [
            "2002:0:0:0:0:0:0:0/16",
            "0:0:0:0:0:0:0:0/96",
            "2001:db8:0:0:0:0:0:0/32",
            "192.0.2.0/24",
            "198.51.100.0/24",
            "203.0.113.0/24",
        ] {
            assert!(ranges.contains(&gap), "{gap}");
        }
        assert!(ranges.contains(&"-198.18.0.0/15"));
        assert_eq!(ranges.iter().filter(|range| range.starts_with('-')).count(), 1);
    }
}
