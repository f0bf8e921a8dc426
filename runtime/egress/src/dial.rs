//! Connects to a host: resolves its name, checks the addresses, and connects only to the addresses
//! that were checked.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use async_trait::async_trait;
use tokio::net::TcpStream;

use crate::{AddressException, address, target::Origin};

/// Resolves host names. Tests replace it to imitate a hostile name server.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a host name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves names with the system's resolver.
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Why a connection failed.
#[derive(Debug)]
pub(crate) enum DialError {
    /// The address is not public, so the proxy did not connect to it.
    NotPublic(IpAddr),
    Failed(String),
}

/// Connects to an origin. Every address of a name must be public or an exception. A name with both
/// kinds of addresses is suspicious. The name is resolved only once, and the proxy connects to
/// exactly these addresses, so a later change of the DNS response has no effect.
pub(crate) async fn dial(
    origin: &Origin,
    resolver: &dyn Resolver,
    exceptions: &[AddressException],
    timeout: Duration,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let addresses = resolve_addresses(origin, resolver, exceptions, timeout).await?;
    for address in &addresses {
        let socket = SocketAddr::new(*address, origin.port);
        let excepted = exceptions.iter().any(|exception| exception.allows(&origin.host, socket));
        let forbidden =
            address::forbidden_reason(*address).is_some() || address::is_own_address(*address);
        if forbidden && !excepted {
            return Err(DialError::NotPublic(*address));
        }
    }
    let mut why = "the host name has no address".to_owned();
    for address in addresses {
        let socket = SocketAddr::new(address, origin.port);
        match tokio::time::timeout(timeout, TcpStream::connect(socket)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok((stream, socket));
            }
            Ok(Err(error)) => why = format!("{socket}: {error}"),
            Err(_) => why = format!("{socket}: connection timed out after {} s", timeout.as_secs()),
        }
    }
    Err(DialError::Failed(why))
}

async fn resolve_addresses(
    origin: &Origin,
    resolver: &dyn Resolver,
    exceptions: &[AddressException],
    timeout: Duration,
) -> Result<Vec<IpAddr>, DialError> {
    if let Some(address) = origin.address() {
        return Ok(vec![address]);
    }
    let pinned =
        exceptions.iter().find_map(|exception| exception.pinned_address(&origin.host, origin.port));
    if let Some(address) = pinned {
        return Ok(vec![address]);
    }
    match tokio::time::timeout(timeout, resolver.resolve(&origin.host)).await {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(DialError::Failed(format!("unknown host name: {error}"))),
        Err(_) => Err(DialError::Failed("the name server did not respond in time".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::target::Scheme;

    /// A name server that returns a different list each time.
    struct ChangingResolver(Vec<Vec<&'static str>>, AtomicUsize);

    #[async_trait]
    impl Resolver for ChangingResolver {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let turn = self.1.fetch_add(1, Ordering::SeqCst);
            Ok(self.0[turn.min(self.0.len() - 1)]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect())
        }
    }

    async fn try_dial(
        resolutions: &[&[&'static str]],
        port: u16,
        exceptions: &[&str],
    ) -> (String, usize) {
        let answers = resolutions.iter().map(|list| list.to_vec()).collect();
        let resolver = ChangingResolver(answers, AtomicUsize::new(0));
        let origin = Origin { scheme: Scheme::Http, host: "evil.example".into(), port };
        let except: Vec<_> =
            exceptions.iter().map(|text| AddressException::parse(text).unwrap()).collect();
        let dialed = dial(&origin, &resolver, &except, Duration::from_millis(300)).await;
        let said = match dialed {
            Ok((_, address)) => address.to_string(),
            Err(DialError::NotPublic(address)) => format!("private {address}"),
            Err(DialError::Failed(why)) => format!("failed {why}"),
        };
        (said, resolver.1.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn rebound_host_name_is_resolved_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The name resolves to a public address when it is checked. A second lookup would return a
        // loopback address, so the proxy must not look up the name a second time. 192.0.1.0 counts
        // as public but is assigned to no host.
        let (said, asked) = try_dial(&[&["192.0.1.0"], &["127.0.0.1"]], port, &[]).await;
        assert!(said.starts_with("failed 192.0.1.0"), "{said}");
        assert_eq!(asked, 1);
        let (said, _) = try_dial(&[&["127.0.0.1"]], port, &[]).await;
        assert_eq!(said, "private 127.0.0.1");
        let (said, _) = try_dial(&[&["192.0.1.0", "169.254.169.254"]], port, &[]).await;
        assert_eq!(said, "private 169.254.169.254", "one bad address is enough to reject the name");
        let (said, _) = try_dial(&[&["::ffff:127.0.0.1"]], port, &[]).await;
        assert!(said.starts_with("private"), "{said}");
        let (said, _) = try_dial(&[&[]], port, &[]).await;
        assert!(said.starts_with("failed"), "{said}");
    }

    #[tokio::test]
    async fn private_exception_applies_only_to_its_port_and_name() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let (said, _) = try_dial(&[&["127.0.0.1"]], port, &[&address]).await;
        assert_eq!(said, address);
        let (said, _) = try_dial(&[&["127.0.0.1"]], port + 1, &[&address]).await;
        assert_eq!(said, "private 127.0.0.1");
        let (said, _) =
            try_dial(&[&["127.0.0.1"]], port, &[&format!("own.example={address}")]).await;
        assert_eq!(said, "private 127.0.0.1", "not for another name");
        let (said, asked) = try_dial(&[&[]], port, &[&format!("evil.example={address}")]).await;
        assert_eq!((said, asked), (address, 0), "a pinned name is not looked up");
    }
}
