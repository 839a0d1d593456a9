//! Keys and certificates that are made for a test.

use fulmar_session::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::Path;

/// One that signs.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// OpenSSL takes a certificate for its own authority's whose name is the same.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are right");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("chance");
        let mut params = params("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("it signs itself").pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Somebody whom it has signed, and who trusts another authority, or this one.
    pub(crate) fn sign(&self, directory: &Path, name: &str, trusted: &Self) -> TlsFiles {
        let key = KeyPair::generate().expect("chance");
        let certificate = params(name).signed_by(&key, &self.issuer).expect("it is signed");
        let write = |kind: &str, text: &str| {
            let path = directory.join(format!("{name}-{kind}.pem"));
            fs::write(&path, text).expect("it is written");
            path
        };
        TlsFiles {
            private_key: write("key", &key.serialize_pem()),
            certificate: write("certificate", &certificate.pem()),
            authority: write("authority", &trusted.certificate),
        }
    }
}
