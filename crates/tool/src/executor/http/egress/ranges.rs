//! Address ranges outside of the public internet (the IANA special-purpose registries, RFC 6890, and cloud metadata).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The networks, with a description. The first match applies.
const RANGES: [(IpNet, &str); 26] = [
    (v4([0, 0, 0, 0], 8), "unspecified address"),
    (v4([10, 0, 0, 0], 8), "private address"),
    (v4([100, 64, 0, 0], 10), "carrier-grade NAT address"),
    (v4([127, 0, 0, 0], 8), "loopback address"),
    // Azure serves instance metadata at this address, although it looks public.
    (v4([168, 63, 129, 16], 32), "cloud metadata address"),
    (v4([169, 254, 0, 0], 16), "link-local or cloud metadata address"),
    (v4([172, 16, 0, 0], 12), "private address"),
    (v4([192, 0, 0, 0], 24), "reserved address"),
    (v4([192, 0, 2, 0], 24), "documentation address"),
    (v4([192, 88, 99, 0], 24), "reserved address"),
    (v4([192, 168, 0, 0], 16), "private address"),
    (v4([198, 18, 0, 0], 15), "benchmarking address"),
    (v4([198, 51, 100, 0], 24), "documentation address"),
    (v4([203, 0, 113, 0], 24), "documentation address"),
    (v4([224, 0, 0, 0], 4), "multicast address"),
    (v4([255, 255, 255, 255], 32), "broadcast address"),
    (v4([240, 0, 0, 0], 4), "reserved address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback address"),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), "cloud metadata address"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private address"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local address"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast address"),
    // Includes Teredo (2001::/32), benchmarking and ORCHID.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved address"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation address"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation address"),
];

const fn v4(start: [u8; 4], bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from_octets(start), bits))
}

const fn v6(start: [u16; 8], bits: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_segments(start), bits))
}

/// Returns the final destination of a packet to `address`: the IPv4 address inside of an IPv4-mapped (RFC 4291), NAT64
/// (RFC 6052) or 6to4 (RFC 3056) address, else the address itself.
pub(super) fn reached(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    let inner = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => inner(high, low),
        _ => address,
    }
}

/// Describes an address that is not public; `None` if it is. The address must come from [`reached`].
pub(super) fn denied(address: IpAddr) -> Option<&'static str> {
    let named = RANGES.iter().find(|(network, _)| network.contains(&address)).map(|(_, what)| *what);
    // Only 2000::/3 is assigned to global unicast so far.
    let is_reserved = matches!(address, IpAddr::V6(v6) if v6.segments()[0] & 0xe000 != 0x2000);
    named.or(is_reserved.then_some("reserved address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(address: &str) -> Option<&'static str> {
        denied(reached(address.parse().unwrap()))
    }

    #[test]
    fn special_ranges_are_denied_including_their_bounds() {
        for address in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:5ef5::1",
            "2001:2::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(reason(address).is_some(), "{address}");
        }
        assert_eq!(reason("255.255.255.255"), Some("broadcast address"));
        assert_eq!(reason("fd00:ec2::254"), Some("cloud metadata address"));
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(reason(address), None, "{address}");
        }
    }
}
