//! State that all proxies of a run share.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::{
    ClientFiles, EgressProxy, Ledger, Policy, Resolver, SystemResolver,
    ca::{self, CertificateAuthority},
    client, keystore,
};

/// The run's certificate authority, the host's root certificates and the resolver.
pub struct Egress {
    pub(crate) authority: Arc<CertificateAuthority>,
    root_certificates: Vec<CertificateDer<'static>>,
    resolver: Arc<dyn Resolver>,
}

impl Egress {
    /// Creates the run's certificate authority and reads the host's root certificates.
    pub fn new() -> Result<Self, String> {
        let authority = CertificateAuthority::new().map_err(|error| error.to_string())?;
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::warn!(%error, "cannot read a root certificate of the host");
        }
        Ok(Self {
            authority: Arc::new(authority),
            root_certificates: native.certs,
            resolver: Arc::new(SystemResolver),
        })
    }

    /// Replaces the system's resolver. Tests use this.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Creates a trial's proxy. `ca_file` contains PEM certificates that the proxy trusts for
    /// upstream servers in addition to the host's own.
    pub fn create_proxy(
        &self,
        policy: Policy,
        ca_file: Option<&Path>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<EgressProxy, String> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(self.root_certificates.iter().cloned());
        for certificate in read_certificates(ca_file)? {
            store.add(certificate).map_err(|error| format!("network.ca_file: {error}"))?;
        }
        let mut tls = ClientConfig::builder_with_provider(ca::crypto_provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(store)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let authority = Arc::clone(&self.authority);
        EgressProxy::new(policy, authority, Arc::new(tls), Arc::clone(&self.resolver), ledger)
    }

    /// Returns the certificates that the sandbox should trust: the host's root certificates, the
    /// run's authority and `ca_file`.
    pub fn client_files(&self, ca_file: Option<&Path>) -> Result<ClientFiles, String> {
        let mut all = self.root_certificates.clone();
        all.extend(read_certificates(ca_file)?);
        all.push(self.authority.certificate().clone());
        client::client_files(ca::encode_pem(&all), keystore::encode_keystore(&all))
    }
}

/// Reads the certificates in a PEM file. Fails if the file contains none.
pub fn read_certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let wrong = |why: String| format!("network.ca_file: {}: {why}", file.display());
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?.collect();
    let certificates = read.map_err(|error| wrong(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(wrong("the file contains no certificates".into())),
        false => Ok(certificates),
    }
}
