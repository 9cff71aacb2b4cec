//! Which addresses are not globally routable.
//!
//! The source of every row is the IANA special-purpose registry, IPv4 or IPv6, unless the row names another RFC.
//! Where the registry makes a small exception inside a range that is not global (PCP and TURN anycast in 192.0.0.0/24
//! and 2001:1::/32, AS112, ORCHID), the whole range is refused: no web server stands there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The IPv4 ranges that are not public, and what they are.
const IPV4: [(Ipv4Net, &str); 15] = [
    (v4([0, 0, 0, 0], 8), "this network"),
    (v4([10, 0, 0, 0], 8), "private use"),
    (v4([100, 64, 0, 0], 10), "shared address space"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    (v4([169, 254, 0, 0], 16), "link local"),
    (v4([172, 16, 0, 0], 12), "private use"),
    (v4([192, 0, 0, 0], 24), "IETF protocol assignments"),
    (v4([192, 0, 2, 0], 24), "documentation"),
    (v4([192, 88, 99, 0], 24), "6to4 relay anycast"),
    (v4([192, 168, 0, 0], 16), "private use"),
    (v4([198, 18, 0, 0], 15), "benchmarking"),
    (v4([198, 51, 100, 0], 24), "documentation"),
    (v4([203, 0, 113, 0], 24), "documentation"),
    // IANA IPv4 multicast registry, RFC 5771.
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([240, 0, 0, 0], 4), "reserved"),
];

/// The IPv6 ranges that are not public, narrow ones before the wide ones around them.
///
/// IANA hands out 2000::/3 only (RFC 4291); the wide rows at the end are the rest of the space.
const IPV6: [(Ipv6Net, &str); 24] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "IPv4-compatible"),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), "IPv4-translated"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "local-use NAT64"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discard only"),
    (v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64), "dummy prefix"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "Teredo"),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), "benchmarking"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "IETF protocol assignments"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "6to4"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), "segment routing"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "unique local"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link local"),
    // Deprecated by RFC 3879, yet still routed inside old networks.
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "site local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 8), UNALLOCATED),
    (v6([0x200, 0, 0, 0, 0, 0, 0, 0], 7), UNALLOCATED),
    (v6([0x400, 0, 0, 0, 0, 0, 0, 0], 6), UNALLOCATED),
    (v6([0x800, 0, 0, 0, 0, 0, 0, 0], 5), UNALLOCATED),
    (v6([0x4000, 0, 0, 0, 0, 0, 0, 0], 2), UNALLOCATED),
    (v6([0x8000, 0, 0, 0, 0, 0, 0, 0], 1), UNALLOCATED),
];

const UNALLOCATED: &str = "not allocated";

/// Global unicast: all that IANA hands out (RFC 4291 section 2.4).
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The well-known prefix that translators put before an IPv4 address (RFC 6052).
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

const fn v4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from_segments(segments), prefix)
}

/// The ranges that an engine with a filter of its own must be told to block.
///
/// NAT64 is not among them: what it leads to depends on the IPv4 address inside.
pub fn special_ranges() -> impl Iterator<Item = IpNet> {
    let narrow = IPV4.iter().map(|(range, _)| IpNet::V4(*range));
    narrow.chain(IPV6.iter().map(|(range, _)| IpNet::V6(*range)))
}

/// The name of the range that keeps an address from being globally routable; `None` for a public address.
///
/// An IPv4 address inside an IPv6 address decides first, so that `::ffff:127.0.0.1` is loopback.
pub(super) fn special_range(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => special_ipv4(address),
        IpAddr::V6(address) => special_ipv6(address),
    }
}

fn special_ipv4(address: Ipv4Addr) -> Option<&'static str> {
    IPV4.iter().find(|(range, _)| range.contains(&address)).map(|(_, name)| *name)
}

fn special_ipv6(address: Ipv6Addr) -> Option<&'static str> {
    let inside = embedded_ipv4(address).and_then(special_ipv4);
    let own = IPV6.iter().find(|(range, _)| range.contains(&address)).map(|(_, name)| *name);
    match inside.filter(|_| !is_plain_low(address)).or(own) {
        Some(name) => Some(name),
        None if GLOBAL_UNICAST.contains(&address) || NAT64.contains(&address) => None,
        None => Some(UNALLOCATED),
    }
}

/// `::` and `::1` have names of their own, although they look like IPv4-compatible addresses of 0.0.0.0/8.
fn is_plain_low(address: Ipv6Addr) -> bool {
    address.is_unspecified() || address.is_loopback()
}

/// The IPv4 address that an IPv6 address carries: compatible (RFC 4291), translated (RFC 2765), NAT64 with either prefix
/// (RFC 6052, RFC 8215), 6to4 (RFC 3056) or Teredo (RFC 4380, where the client's address is inverted).
pub(super) fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0, 0, 0, 0, 0xffff, 0] => Some(join(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0] | [0x64, 0xff9b, 1, ..] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        [0x2001, 0, ..] => Some(join(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_of(address: &str) -> Option<&'static str> {
        special_range(address.parse().unwrap())
    }

    #[test]
    fn an_ipv4_address_inside_another_decides() {
        for wrapped in [
            "::ffff:127.0.0.1",
            "::127.0.0.2",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::127.0.0.1",
            "2002:7f00:1::",
            "2001:0:0:0:0:0:80ff:fffe",
        ] {
            assert_eq!(range_of(wrapped), Some("loopback"), "{wrapped}");
        }
        assert_eq!(range_of("64:ff9b::10.1.2.3"), Some("private use"));
        assert_eq!(range_of("::ffff:8.8.8.8"), None);
        assert_eq!(range_of("64:ff9b::8.8.8.8"), None, "an IPv6-only network reaches the IPv4 web this way");
        assert_eq!(range_of("2002:808:808::1"), Some("6to4"), "a relay decides where it really goes");
    }

    #[test]
    fn both_ends_of_every_range_are_inside_and_their_neighbours_are_judged_on_their_own() {
        for (range, name) in IPV4 {
            assert_eq!(special_ipv4(range.network()), Some(name));
            assert_eq!(special_ipv4(range.broadcast()), Some(name));
        }
        for (range, _) in IPV6 {
            assert!(special_ipv6(range.network()).is_some(), "{range}");
            assert!(special_ipv6(range.broadcast()).is_some(), "{range}");
        }
        for public in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.1",
            "203.0.112.1",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1",
            "3ffe::1",
            "3fff:1000::1",
        ] {
            assert_eq!(range_of(public), None, "{public}");
        }
    }

    #[test]
    fn what_nobody_was_given_is_not_public() {
        for address in ["64:ff9a::1", "1::1", "3:1::", "100::2", "1000::1", "4000::1", "9999::1", "fe00::1"] {
            assert!(range_of(address).is_some(), "{address}");
        }
    }
}
