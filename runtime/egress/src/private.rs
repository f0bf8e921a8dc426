//! `network.private`: addresses that the proxy may connect to although they are not public.

use std::net::{IpAddr, SocketAddr};

use crate::target::{Origin, Scheme};

/// An exception: `ADDRESS:PORT`, or `NAME=ADDRESS:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressException {
    /// The only host name for which the address may be used. This name is never resolved.
    pub name: Option<String>,
    pub address: SocketAddr,
}

impl AddressException {
    /// Parses an exception. The text of an `Err` contains a hint.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (Some(name), address),
            None => (None, text),
        };
        let form = "use ADDRESS:PORT or NAME=ADDRESS:PORT, as in `127.0.0.1:8443`";
        let address: SocketAddr = address.parse().map_err(|_| format!("`{text}`: {form}"))?;
        if address.port() == 0 {
            return Err(format!("`{text}`: port 0 cannot be used; {form}"));
        }
        let name = match name {
            None => None,
            Some(name) => Some(
                Origin::parse(Scheme::Https, name)
                    .ok()
                    .filter(|origin| origin.port == 443 && origin.address().is_none())
                    .map(|origin| origin.host)
                    .ok_or_else(|| format!("`{text}`: `{name}` is not a host name"))?,
            ),
        };
        Ok(Self { name, address })
    }

    /// Returns the address configured for this host name and port.
    pub(crate) fn pinned_address(&self, host: &str, port: u16) -> Option<IpAddr> {
        (self.name.as_deref() == Some(host) && self.address.port() == port)
            .then_some(self.address.ip())
    }

    /// Whether the proxy may connect to this address for the given host.
    pub(crate) fn allows(&self, host: &str, address: SocketAddr) -> bool {
        self.address == address && self.name.as_deref().is_none_or(|name| name == host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_exception_is_one_address_and_port() {
        let plain = AddressException::parse("127.0.0.1:8443").unwrap();
        let named = AddressException::parse("Index.test=[::1]:8443").unwrap();
        assert!(plain.allows("any", "127.0.0.1:8443".parse().unwrap()));
        assert!(!plain.allows("any", "127.0.0.1:8444".parse().unwrap()));
        assert!(named.allows("index.test", "[::1]:8443".parse().unwrap()));
        assert!(!named.allows("other.test", "[::1]:8443".parse().unwrap()));
        assert_eq!(named.pinned_address("index.test", 8443), Some("::1".parse().unwrap()));
        assert_eq!(named.pinned_address("index.test", 443), None);
        for wrong in [
            "",
            "127.0.0.1",
            "127.0.0.1:0",
            "localhost:1",
            "=127.0.0.1:1",
            "a b=127.0.0.1:1",
            "1.2.3.4=1.2.3.4:1",
        ] {
            assert!(AddressException::parse(wrong).is_err(), "{wrong}");
        }
    }
}
