//! Lightpanda's network flags.
//!
//! Measured on 1.0.2: the order of the flags does not matter, a range with a leading `-` is opened again whatever blocks it,
//! and `--block-private-networks` alone leaves 11 of the ranges below open (192.0.2.0/24 and 2002::/16 among them).

use ipnet::IpNet;

use crate::domain::network::{NetworkPolicy, special_ranges};

use super::proxy::ProxyClient;

/// The flags of a worker that connects by itself. It may reach public addresses and the trusted ranges, on every port:
/// use it only where [`NetworkPolicy::needs_proxy`] is false.
pub fn direct(policy: &NetworkPolicy) -> Vec<String> {
    let trusted = policy.trusted().iter().map(|range| format!("-{}", written(*range)));
    block(trusted)
}

/// The flags of a worker whose traffic goes through the proxy, which judges every connection.
///
/// The engine looks at the proxy's address only, so its own filter opens that one: it is left to stop whatever would go
/// round the proxy.
pub fn proxied(client: &ProxyClient) -> Vec<String> {
    let mut flags = block([format!("-{}/32", client.proxy_address().ip())]);
    flags.extend(["--http-proxy".to_owned(), client.url()]);
    flags
}

/// Everything that is not public is blocked, but for the `opened` ranges.
fn block(opened: impl IntoIterator<Item = String>) -> Vec<String> {
    let blocked = special_ranges().map(written);
    let ranges = blocked.chain(opened).flat_map(|range| ["--block-cidrs".to_owned(), range]);
    std::iter::once("--block-private-networks".to_owned()).chain(ranges).collect()
}

/// IPv6 in full: Lightpanda refuses the short form `::ffff:0:0:0`.
fn written(range: IpNet) -> String {
    match range {
        IpNet::V4(range) => range.to_string(),
        IpNet::V6(range) => {
            let segments = range.network().segments().map(|segment| format!("{segment:x}"));
            format!("{}/{}", segments.join(":"), range.prefix_len())
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
        for gap in ["2002:0:0:0:0:0:0:0/16", "0:0:0:0:0:0:0:0/96", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"]
        {
            assert!(ranges.contains(&gap), "{gap}");
        }
        assert!(ranges.contains(&"-198.18.0.0/15"));
        assert_eq!(ranges.iter().filter(|range| range.starts_with('-')).count(), 1);
    }
}
