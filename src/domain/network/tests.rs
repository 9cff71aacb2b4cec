use proptest::prelude::*;

use super::*;
use crate::domain::approval::decide;

/// Lines of `[kind, url]`. The kinds: `scheme`, `address`, `localhost`, `trick`.
const HOSTILE: &str = include_str!("../../../tests/data/hostile-urls.jsonl");
/// Lines of `url`.
const ORDINARY: &str = include_str!("../../../tests/data/ordinary-urls.jsonl");

fn hostile(kind: &str) -> Vec<String> {
    let lines = HOSTILE.lines().map(|line| serde_json::from_str::<(String, String)>(line).unwrap());
    lines.filter(|(of, _)| of == kind).map(|(_, url)| url).collect()
}

fn target(text: &str) -> HostPort {
    text.parse().unwrap()
}

fn policy(trusted: &[&str], exempt: &[&str]) -> NetworkPolicy {
    let trusted = trusted.iter().map(|range| range.parse().unwrap()).collect();
    NetworkPolicy::new(trusted, exempt.iter().map(|text| target(text)).collect())
}

#[test]
fn every_hostile_url_is_refused() {
    for (kind, least) in [("scheme", 60), ("address", 200), ("localhost", 12), ("trick", 40)] {
        let urls = hostile(kind);
        assert!(urls.len() >= least, "{kind}: {}", urls.len());
        let passed: Vec<_> = urls.iter().filter(|url| decide(&NetworkPolicy::default(), url).is_ok()).collect();
        assert!(passed.is_empty(), "{passed:?}");
    }
    assert!(HOSTILE.lines().count() >= 400);
}

#[test]
fn a_refusal_names_the_right_reason() {
    for url in hostile("scheme") {
        let refusal = decide(&NetworkPolicy::default(), &url).unwrap_err();
        assert!(matches!(refusal, Refusal::Scheme { .. } | Refusal::Invalid(_)), "{url:?}: {refusal:?}");
    }
    for url in hostile("address").into_iter().chain(hostile("localhost")) {
        let refusal = decide(&NetworkPolicy::default(), &url).unwrap_err();
        assert!(matches!(refusal, Refusal::Private { .. }), "{url:?}: {refusal:?}");
    }
}

#[test]
fn every_ordinary_url_passes() {
    let urls: Vec<String> = ORDINARY.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(urls.len() >= 200);
    for url in urls {
        assert_eq!(decide(&NetworkPolicy::default(), &url).err(), None, "{url}");
    }
}

#[test]
fn an_exemption_is_for_one_host_and_one_port() {
    let policy = policy(&[], &["127.0.0.1:8080", "intranet.example:8443"]);
    for passes in
        ["http://127.0.0.1:8080/", "http://0x7f.1:8080/", "https://127.0.0.1:8080/", "https://intranet.example:8443/"]
    {
        assert!(decide(&policy, passes).is_ok(), "{passes}");
    }
    for refused in [
        "http://127.0.0.1/",
        "http://127.0.0.1:8081/",
        "http://127.0.0.2:8080/",
        "http://localhost:8080/",
        "http://[::1]:8080/",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://user@127.0.0.1:8080/",
        "ftp://127.0.0.1:8080/",
    ] {
        assert!(decide(&policy, refused).is_err(), "{refused}");
    }
    let inside = "10.0.0.7".parse().unwrap();
    assert_eq!(policy.judge_address(inside, &target("intranet.example:8443")), Ok(()));
    assert_eq!(policy.judge_address(inside, &target("INTRANET.example.:8443")), Ok(()));
    assert!(policy.judge_address(inside, &target("intranet.example:80")).is_err());
    assert!(policy.judge_address(inside, &target("a.intranet.example:8443")).is_err());
}

#[test]
fn an_exempt_bad_port_stays_closed() {
    let policy = policy(&[], &["127.0.0.1:6000"]);
    assert_eq!(decide(&policy, "http://127.0.0.1:6000/"), Err(Refusal::BadPort { port: 6000 }));
}

#[test]
fn a_trusted_range_is_judged_as_public_and_nothing_around_it() {
    let policy = policy(&["198.18.0.0/15", "fd00:1::/32"], &[]);
    for passes in
        ["http://198.18.0.1/", "http://198.19.255.255:81/", "http://[::ffff:198.18.0.1]/", "http://[fd00:1::5]/"]
    {
        assert!(decide(&policy, passes).is_ok(), "{passes}");
    }
    for refused in ["http://10.0.0.1/", "http://[fd00:2::5]/", "http://[2002:c612:1::]/"] {
        assert!(decide(&policy, refused).is_err(), "{refused}");
    }
}

#[test]
fn our_own_port_is_closed_in_every_spelling_to_everyone() {
    let own = "127.0.0.1:7878".parse().unwrap();
    let policy =
        policy(&["127.0.0.0/8", "::/0"], &["127.0.0.1:7878", "localhost:7878", "[::1]:7878", "me.example:7878"]);
    let policy = policy.with_own_ports([own]);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.2",
        "127.0.0.1.",
        "１２７.0.0.1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "0.0.0.0",
        "0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "127%2e0.0.1",
    ] {
        let refusal = decide(&policy, &format!("http://{host}:7878/v1/status")).unwrap_err();
        assert!(matches!(refusal, Refusal::OwnPort { .. }), "{host}: {refusal:?}");
    }
    assert!(decide(&policy, "http://127.0.0.1:7879/").is_ok(), "only the port is ours");
    let by_name = policy.judge_address("127.0.0.1".parse().unwrap(), &target("me.example:7878"));
    assert!(matches!(by_name, Err(Refusal::OwnPort { .. })));
}

#[test]
fn a_socket_on_every_interface_closes_its_port_on_every_address_that_is_not_public() {
    let policy = policy(&["198.18.0.0/15"], &["10.0.0.1:7878"]).with_own_ports(["0.0.0.0:7878".parse().unwrap()]);
    for url in ["http://198.18.0.1:7878/", "http://10.0.0.1:7878/", "http://127.0.0.1:7878/"] {
        assert!(matches!(decide(&policy, url), Err(Refusal::OwnPort { .. })), "{url}");
    }
    assert!(decide(&policy, "http://198.18.0.1:7879/").is_ok());
    assert!(decide(&policy, "http://8.8.8.8:7878/").is_ok());
}

#[test]
fn a_worker_needs_the_proxy_where_the_engines_filter_is_too_coarse() {
    let own = ["127.0.0.1:7878".parse().unwrap()];
    assert!(!policy(&[], &[]).with_own_ports(own).needs_proxy());
    assert!(!policy(&["198.18.0.0/15"], &[]).with_own_ports(own).needs_proxy());
    assert!(policy(&[], &["127.0.0.1:8080"]).needs_proxy(), "an exemption is for one port");
    assert!(policy(&["127.0.0.0/8"], &[]).with_own_ports(own).needs_proxy(), "our port lies in the trusted range");
    assert!(policy(&["127.0.0.2/32"], &[]).with_own_ports(own).needs_proxy());
    assert!(policy(&["198.18.0.0/15"], &[]).with_own_ports(["0.0.0.0:7878".parse().unwrap()]).needs_proxy());
}

#[test]
fn a_url_over_the_limit_is_refused_before_it_is_parsed() {
    let long = format!("http://example.com/{}", "a".repeat(MAX_URL_BYTES));
    assert!(matches!(decide(&NetworkPolicy::default(), &long), Err(Refusal::TooLong { .. })));
}

#[test]
fn a_refusal_says_what_to_do_next() {
    let refusal = decide(&NetworkPolicy::default(), "http://127.0.0.1:8080/secret?token=1").unwrap_err().to_string();
    assert!(refusal.contains("loopback") && refusal.contains("PANDARIUM_ALLOW_PRIVATE=127.0.0.1:8080"), "{refusal}");
    assert!(!refusal.contains("secret") && !refusal.contains("token"), "a URL never stands in a message: {refusal}");
    let scheme = decide(&NetworkPolicy::default(), &format!("{}:x", "a".repeat(9000))).unwrap_err().to_string();
    assert!(scheme.len() < 200, "a long scheme is cut");
}

proptest! {
    #[test]
    fn any_text_is_answered_and_what_passes_is_http_without_userinfo(text in ".{0,80}") {
        if let Ok(cleared) = decide(&NetworkPolicy::default(), &text) {
            prop_assert!(matches!(cleared.url().scheme(), "http" | "https"));
            prop_assert!(cleared.url().username().is_empty() && cleared.url().password().is_none());
        }
    }

    #[test]
    fn a_cleared_url_is_cleared_again_in_its_canonical_form(host in "[a-zA-Z0-9.%_-]{1,30}", port in any::<u16>(), path in "[ -~]{0,20}") {
        if let Ok(cleared) = decide(&NetworkPolicy::default(), &format!("http://{host}:{port}/{path}")) {
            prop_assert_eq!(decide(&NetworkPolicy::default(), cleared.url().as_str()), Ok(cleared));
        }
    }

    #[test]
    fn every_spelling_of_an_ipv4_address_gets_one_verdict(bits in any::<u32>()) {
        let address = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = address.octets();
        let plain = decide(&NetworkPolicy::default(), &format!("http://{address}/")).is_ok();
        for spelling in [
            format!("{bits}"),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("{a:#x}.{b}.0{c:o}.{d}"),
            format!("{a}.{}", bits & 0x00ff_ffff),
            format!("{address}."),
            format!("[::ffff:{address}]"),
            format!("[64:ff9b::{address}]"),
        ] {
            let verdict = decide(&NetworkPolicy::default(), &format!("http://{spelling}/")).is_ok();
            prop_assert_eq!(verdict, plain, "{}", spelling);
        }
    }

    #[test]
    fn an_ipv6_address_is_public_only_inside_global_unicast_or_with_a_public_address_behind_nat64(bits in any::<u128>()) {
        let address = Ipv6Addr::from_bits(bits);
        if NetworkPolicy::default().judge_address(address.into(), &target("example.com:80")).is_ok() {
            prop_assert!(address.segments()[0] >> 13 == 1);
        }
    }

    #[test]
    fn what_the_default_policy_refuses_to_reach_is_what_no_range_calls_public(bits in any::<u32>()) {
        let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
        let listed = special_ranges().any(|range| range.contains(&address));
        let verdict = NetworkPolicy::default().judge_address(address, &target("example.com:80"));
        prop_assert_eq!(verdict.is_err(), listed);
    }
}
