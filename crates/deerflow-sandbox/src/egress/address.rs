//! Which addresses are the public Internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not the public Internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    /// This machine by itself, 127.0.0.0/8 and `::1`.
    Loopback,
    /// A network of somebody's own.
    Private,
    /// What a carrier shares among its customers, 100.64.0.0/10.
    Shared,
    /// One link.
    LinkLocal,
    /// Many at once.
    Multicast,
    /// No address, which the system takes for this machine.
    Unspecified,
    /// The service of a cloud that gives the machine's credentials to whoever asks.
    Metadata,
    /// Documentation, tests, tunnels and what nobody has.
    Reserved,
    /// An address of one of this machine's interfaces.
    Own,
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "an address that a carrier shares",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Unspecified => "an address of no machine",
            Self::Metadata => "a cloud's metadata service",
            Self::Reserved => "a reserved address",
            Self::Own => "an address of the server's own machine",
        })
    }
}

/// Addresses of clouds' metadata services. That of Azure looks public.
const METADATA: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Why this is not an address of the public Internet; `None` if it is one.
///
/// An address that carries an IPv4 address in it (mapped, compatible, NAT64, 6to4) is as special as what it carries.
pub(crate) fn special(address: IpAddr) -> Option<Special> {
    if METADATA.contains(&address) {
        return Some(Special::Metadata);
    }
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

/// Whether an address belongs to the public Internet: not to this machine, a private network, a cloud's metadata service,
/// or what is reserved.
#[must_use]
pub fn is_public_address(address: IpAddr) -> bool {
    special(address).is_none()
}

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    Some(match address.octets() {
        [0, ..] => Special::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Special::Private,
        [100, 64..=127, ..] => Special::Shared,
        [127, ..] => Special::Loopback,
        [169, 254, ..] => Special::LinkLocal,
        [224..=239, ..] => Special::Multicast,
        // Protocol assignments, documentation, the old 6to4 relays, benchmarks, the former class E with broadcast.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Special::Reserved
        }
        [240..=255, ..] => Special::Reserved,
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<Special> {
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        special(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Special::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Special::Loopback),
        [0, 0, 0, 0, 0, 0xffff, high, low] => carried(high, low),
        // Never routed, whatever they carry; but the carried address says more.
        [0, 0, 0, 0, 0, 0, high, low] => carried(high, low).or(Some(Special::Reserved)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        // NAT64 within a network.
        [0x64, 0xff9b, 1, ..] => Some(Special::Private),
        [0x2002, high, low, ..] => carried(high, low),
        // Teredo, benchmarks and other protocols; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(Special::Reserved),
        // All that is handed out.
        [0x2000..=0x3fff, ..] => None,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(Special::Private),
        [0xfe80..=0xfebf, ..] => Some(Special::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Special::Multicast),
        _ => Some(Special::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Option<Special> {
        special(text.parse().unwrap())
    }

    #[test]
    fn the_edges_of_each_range() {
        use Special::*;
        for (text, expected) in [
            ("0.0.0.0", Some(Unspecified)),
            ("0.255.255.255", Some(Unspecified)),
            ("1.0.0.0", None),
            ("9.255.255.255", None),
            ("10.0.0.0", Some(Private)),
            ("10.255.255.255", Some(Private)),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(Shared)),
            ("100.127.255.255", Some(Shared)),
            ("100.128.0.0", None),
            ("100.100.100.200", Some(Metadata)),
            ("126.255.255.255", None),
            ("127.0.0.0", Some(Loopback)),
            ("127.255.255.255", Some(Loopback)),
            ("128.0.0.0", None),
            ("168.63.129.16", Some(Metadata)),
            ("169.253.255.255", None),
            ("169.254.0.0", Some(LinkLocal)),
            ("169.254.169.254", Some(Metadata)),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.0", None),
            ("192.0.0.192", Some(Metadata)),
            ("192.0.0.8", Some(Reserved)),
            ("192.0.1.0", None),
            ("192.0.2.1", Some(Reserved)),
            ("192.88.99.1", Some(Reserved)),
            ("192.167.255.255", None),
            ("192.168.0.0", Some(Private)),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.18.0.0", Some(Reserved)),
            ("198.19.255.255", Some(Reserved)),
            ("198.20.0.0", None),
            ("198.51.100.1", Some(Reserved)),
            ("203.0.113.1", Some(Reserved)),
            ("223.255.255.255", None),
            ("224.0.0.0", Some(Multicast)),
            ("239.255.255.255", Some(Multicast)),
            ("240.0.0.0", Some(Reserved)),
            ("255.255.255.255", Some(Reserved)),
            ("::", Some(Unspecified)),
            ("::1", Some(Loopback)),
            ("::127.0.0.1", Some(Loopback)),
            ("::8.8.8.8", Some(Reserved)),
            ("::ffff:8.8.8.8", None),
            ("::ffff:192.168.1.1", Some(Private)),
            ("::ffff:169.254.169.254", Some(Metadata)),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b::10.0.0.1", Some(Private)),
            ("64:ff9b::169.254.169.254", Some(Metadata)),
            ("64:ff9b:1::8.8.8.8", Some(Private)),
            ("2002:0808:0808::1", None),
            ("2002:7f00:0001::1", Some(Loopback)),
            ("2002:a9fe:a9fe::1", Some(Metadata)),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Some(Reserved)),
            ("2001:1ff::", Some(Reserved)),
            ("2001:200::", None),
            ("2001:db8::1", Some(Reserved)),
            ("2606:4700::1111", None),
            ("3fff::1", Some(Reserved)),
            ("3fff:1000::1", None),
            ("1fff::", Some(Reserved)),
            ("4000::", Some(Reserved)),
            ("fc00::1", Some(Private)),
            ("fd00:ec2::254", Some(Metadata)),
            ("fd20:ce::254", Some(Metadata)),
            ("fe80::1", Some(LinkLocal)),
            ("fec0::1", Some(Private)),
            ("ff02::1", Some(Multicast)),
            ("100::1", Some(Reserved)),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_the_standard_library_calls_special_is_special(bits: u32) {
            let address = Ipv4Addr::from(bits);
            let known = address.is_private() || address.is_loopback() || address.is_link_local() || address.is_multicast()
                || address.is_broadcast() || address.is_documentation() || address.is_unspecified();
            if known {
                prop_assert!(special(address.into()).is_some(), "{address}");
            }
        }

        #[test]
        fn an_address_is_no_less_special_for_being_carried_in_another(bits: u32, low: u64) {
            let inner = Ipv4Addr::from(bits);
            let Some(expected) = special(inner.into()) else { return Ok(()) };
            let [high, low4] = [(bits >> 16) as u16, bits as u16];
            let sixtofour = (u128::from(0x2002_u16) << 112) | (u128::from(bits) << 80) | u128::from(low);
            for outer in [
                inner.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low4),
                Ipv6Addr::from(sixtofour),
            ] {
                prop_assert_eq!(special(outer.into()), Some(expected), "{}", outer);
            }
        }

        #[test]
        fn only_handed_out_ranges_are_public(bits: u128) {
            let address = Ipv6Addr::from(bits);
            if special(address.into()).is_none() {
                let segments = address.segments();
                let nat64 = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
                let global = segments[0] & 0xe000 == 0x2000;
                prop_assert!(nat64 || global || address.to_ipv4_mapped().is_some(), "{address}");
            }
        }
    }
}
