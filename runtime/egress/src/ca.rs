//! The run's certificate authority. It exists only in memory and only while the run lasts.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// Maximum number of hosts whose TLS configuration is cached. When the limit is reached, the cache
/// is cleared. This is a safety limit and has not been tuned.
const MAX_CACHED_HOSTS: usize = 1024;

pub(crate) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// The private key of all leaf certificates. One key is enough, because this process
    /// impersonates all hosts.
    leaf_key: KeyPair,
    server_configs: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

impl CertificateAuthority {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name =
            distinguished_name("Proctor egress proxy: per-run certificate authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.der().clone();
        let issuer = Issuer::new(params, key);
        Ok(Self {
            issuer,
            certificate,
            leaf_key: KeyPair::generate()?,
            server_configs: Mutex::default(),
        })
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the TLS configuration for a client that connects to `host`.
    pub(crate) fn server_config(&self, host: &str) -> Result<Arc<ServerConfig>, String> {
        let mut leaves = self.server_configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = leaves.get(host) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.issue_server_config(host)?);
        if leaves.len() >= MAX_CACHED_HOSTS {
            leaves.clear();
        }
        leaves.insert(host.to_owned(), Arc::clone(&config));
        Ok(config)
    }

    fn issue_server_config(&self, host: &str) -> Result<ServerConfig, String> {
        let text = |error: rcgen::Error| error.to_string();
        let mut params = CertificateParams::new([host.to_owned()]).map_err(text)?;
        // A common name is limited to 64 characters, and no current client reads it. Don't put the
        // host name there.
        params.distinguished_name = distinguished_name("Proctor egress proxy");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // OpenSSL's strict mode requires this extension. Python uses strict mode by default since
        // 3.13.
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&self.leaf_key, &self.issuer).map_err(text)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone(), self.certificate.clone()], key)
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Returns the crypto provider. It is passed explicitly, so that it does not matter which provider
/// the process has installed.
pub(crate) fn crypto_provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the server name that a client must send in its TLS ClientHello message. Returns `None`
/// for an IP address.
pub(crate) fn expected_name(host: &str) -> Option<&str> {
    host.parse::<IpAddr>().is_err().then_some(host)
}

/// Encodes certificates as a PEM file.
pub(crate) fn encode_pem(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = BASE64_STANDARD.encode(certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = more;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text.into_bytes()
}

fn distinguished_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
