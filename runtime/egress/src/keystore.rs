//! Writes a Java key store (JKS) with trusted certificates. This is needed because Java cannot read
//! PEM files, and no environment variable sets the certificates that Java trusts.

use rustls::pki_types::CertificateDer;
use sha1::{Digest, Sha1};

/// The password is not a secret. The format only uses it to check the file's integrity.
pub(crate) const PASSWORD: &str = "changeit";

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;
/// A constant that the format includes in the checksum.
const WHITENER: &[u8] = b"Mighty Aphrodite";

pub(crate) fn encode_keystore(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    let mut store = Vec::new();
    put_u32(&mut store, MAGIC);
    put_u32(&mut store, VERSION);
    put_u32(&mut store, certificates.len() as u32);
    for (index, certificate) in certificates.iter().enumerate() {
        put_u32(&mut store, TRUSTED_CERTIFICATE);
        put_text(&mut store, &format!("ca-{index}"));
        // Write zero as the entry's date in milliseconds, so that equal bundles produce equal
        // files.
        store.extend([0; 8]);
        put_text(&mut store, "X.509");
        put_u32(&mut store, certificate.len() as u32);
        store.extend_from_slice(certificate);
    }
    let mut sum = Sha1::new();
    for unit in PASSWORD.encode_utf16() {
        sum.update(unit.to_be_bytes());
    }
    sum.update(WHITENER);
    sum.update(&store);
    store.extend_from_slice(&sum.finalize());
    store
}

fn put_u32(store: &mut Vec<u8>, number: u32) {
    store.extend(number.to_be_bytes());
}

/// Writes ASCII text, whose bytes are the same in Java's modified UTF-8.
fn put_text(store: &mut Vec<u8>, text: &str) {
    store.extend((text.len() as u16).to_be_bytes());
    store.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::ca::CertificateAuthority;

    /// Checks that Java's own tool reads the key store, if it is installed.
    #[test]
    fn java_reads_the_key_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.jks");
        let ca = CertificateAuthority::new().unwrap();
        std::fs::write(&path, encode_keystore(&[ca.certificate().clone()])).unwrap();
        let listed = Command::new("keytool")
            .args(["-list", "-storepass", PASSWORD, "-keystore"])
            .arg(&path)
            .output();
        match listed {
            Ok(listed) => {
                let said = String::from_utf8_lossy(&listed.stdout).into_owned();
                assert!(said.contains("trustedCertEntry"), "{said}");
            }
            Err(_) => crate::not_run::not_run("java_reads_the_key_store", "CLIENTS", "no keytool"),
        }
    }
}
