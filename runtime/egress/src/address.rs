//! Addresses that the proxy never connects to, regardless of the name that resolves to them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Why an address is not part of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForbiddenReason {
    Loopback,
    Private,
    LinkLocal,
    /// An address at which cloud machines obtain credentials.
    Metadata,
    /// Any other special range: multicast, documentation, benchmarking, reserved.
    Special,
    /// An address of the machine on which the proxy runs.
    OwnMachine,
}

/// The cloud metadata addresses. Most clouds use `169.254.169.254`. The others are listed because
/// they are in ranges that look public (`168.63.129.16`, Azure), are shared (`100.100.100.200`,
/// Alibaba) or are reserved for protocols (`192.0.0.192`, Oracle).
const METADATA_ADDRESSES: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Returns why the proxy must not connect to this address. If an IPv6 address contains an IPv4
/// address (mapped, compatible, NAT64, 6to4), the IPv4 address is checked, too.
pub fn forbidden_reason(address: IpAddr) -> Option<ForbiddenReason> {
    match address {
        IpAddr::V4(address) => forbidden_reason_v4(address),
        IpAddr::V6(address) => forbidden_reason_v6(address),
    }
}

/// Whether the address belongs to one of this machine's interfaces. If so, the system chooses the
/// address itself as the source of a connection to it. Connecting the UDP socket sends no packet.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0))
        .and_then(|socket| {
            socket.connect((address, 9))?;
            socket.local_addr()
        })
        .is_ok_and(|own| own.ip() == address)
}

fn forbidden_reason_v4(address: Ipv4Addr) -> Option<ForbiddenReason> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        _ if METADATA_ADDRESSES.contains(&address) => ForbiddenReason::Metadata,
        (127, ..) => ForbiddenReason::Loopback,
        (10, ..) | (192, 168, _) | (172, 16..=31, _) | (100, 64..=127, _) => {
            ForbiddenReason::Private
        }
        (169, 254, _) => ForbiddenReason::LinkLocal,
        (0 | 224..=255, ..)
        | (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18..=19, _)
        | (198, 51, 100)
        | (203, 0, 113) => ForbiddenReason::Special,
        _ => return None,
    })
}

fn forbidden_reason_v6(address: Ipv6Addr) -> Option<ForbiddenReason> {
    let parts = address.segments();
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        forbidden_reason_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(ForbiddenReason::Loopback),
        // IPv6 addresses that contain an IPv4 address in mapped, compatible or translated form.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            carried(high, low).or(Some(ForbiddenReason::Special))
        }
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        [0x2002, high, low, ..] => carried(high, low),
        [0x64, 0xff9b, 1, ..] | [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] => {
            Some(ForbiddenReason::Special)
        }
        [0xfd00, 0xec2, ..] => Some(ForbiddenReason::Metadata),
        [0xfc00..=0xfdff, ..] => Some(ForbiddenReason::Private),
        [0xfe80..=0xfebf, ..] => Some(ForbiddenReason::LinkLocal),
        // Public addresses are only allocated from 2000::/3.
        [0x2000..=0x3fff, ..] => {
            (parts[0] == 0x3fff && parts[1] <= 0xfff).then_some(ForbiddenReason::Special)
        }
        _ => Some(ForbiddenReason::Special),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forbidden_reason_classifies_addresses() {
        use ForbiddenReason::*;
        for (address, expected) in [
            ("8.8.8.8", None),
            ("151.101.0.223", None),
            ("2a04:4e42::223", None),
            ("2606:4700::6810:1", None),
            ("127.0.0.1", Some(Loopback)),
            ("127.255.255.254", Some(Loopback)),
            ("::1", Some(Loopback)),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::127.0.0.1", Some(Loopback)),
            ("::ffff:0:127.0.0.1", Some(Loopback)),
            ("::ffff:8.8.8.8", Some(Special)),
            ("64:ff9b::7f00:1", Some(Loopback)),
            ("64:ff9b::808:808", None),
            ("64:ff9b:1::1", Some(Special)),
            ("2002:7f00:1::", Some(Loopback)),
            ("2002:a9fe:a9fe::1", Some(Metadata)),
            ("10.1.2.3", Some(Private)),
            ("172.16.0.1", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.1", None),
            ("192.168.1.1", Some(Private)),
            ("100.64.0.1", Some(Private)),
            ("100.128.0.1", None),
            ("fd12::1", Some(Private)),
            ("fc00::1", Some(Private)),
            ("169.254.1.1", Some(LinkLocal)),
            ("fe80::1", Some(LinkLocal)),
            ("169.254.169.254", Some(Metadata)),
            ("::ffff:169.254.169.254", Some(Metadata)),
            ("168.63.129.16", Some(Metadata)),
            ("100.100.100.200", Some(Metadata)),
            ("192.0.0.192", Some(Metadata)),
            ("fd00:ec2::254", Some(Metadata)),
            ("0.0.0.0", Some(Special)),
            ("::", Some(Special)),
            ("224.0.0.1", Some(Special)),
            ("255.255.255.255", Some(Special)),
            ("240.0.0.1", Some(Special)),
            ("198.18.0.1", Some(Special)),
            ("203.0.113.1", Some(Special)),
            ("ff02::1", Some(Special)),
            ("fec0::1", Some(Special)),
            ("2001::1", Some(Special)),
            ("2001:db8::1", Some(Special)),
            ("100::1", Some(Special)),
        ] {
            assert_eq!(forbidden_reason(address.parse().unwrap()), expected, "{address}");
        }
    }

    proptest! {
        #[test]
        fn embedded_ipv4_addresses_are_forbidden_like_plain_ones(bits in any::<u32>()) {
            let inner = Ipv4Addr::from(bits);
            let [a, b, c, d] = inner.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            if forbidden_reason_v4(inner).is_some() {
                for outer in [
                    inner.to_ipv6_mapped(),
                    Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                    Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                ] {
                    prop_assert!(forbidden_reason(outer.into()).is_some(), "{outer}");
                }
            }
        }
    }

    #[test]
    fn is_own_address_recognizes_this_machine() {
        assert!(is_own_address("127.0.0.1".parse().unwrap()));
        assert!(!is_own_address("8.8.8.8".parse().unwrap()));
    }
}
