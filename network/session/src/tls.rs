//! Connections that nobody reads along, with somebody whom the same authority has certified.

use crate::channel::Channel;
use rustix::fs::{Mode, OFlags, open};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SideData, SignatureScheme, StreamOwned,
};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a switch needs for TLS, as files in PEM. They are read anew for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its private key.
    pub private_key: PathBuf,
    /// Its certificate, and those up to the authority's.
    pub certificate: PathBuf,
    /// The certificate of the authority that has signed the controllers'.
    pub authority: PathBuf,
}

fn named(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

/// The most bytes of a file in PEM.
const LARGEST: u64 = 1 << 20;

/// What is in a file. Whoever may configure the switch names it, and a device or a pipe could be read for ever.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).map_err(|why| named(path, why))?);
    if !file.metadata()?.is_file() {
        return Err(named(path, "expected a file in PEM, and it is something else"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|why| named(path, why))?;
    if bytes.len() as u64 > LARGEST {
        return Err(named(path, "expected a key or certificates in PEM, of 1 MiB at most"));
    }
    Ok(bytes)
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_slice_iter(&contents(path)?).collect::<Result<_, _>>();
    let certificates: Vec<_> = read.map_err(|why| named(path, why))?;
    if certificates.is_empty() {
        return Err(named(path, "there is no certificate in it: expected one in PEM"));
    }
    Ok(certificates)
}

struct Identity {
    key: PrivateKeyDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    authority: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl TlsFiles {
    fn read(&self) -> io::Result<Identity> {
        let key = PrivateKeyDer::from_pem_slice(&contents(&self.private_key)?);
        let mut authority = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            authority.add(certificate).map_err(|why| named(&self.authority, why))?;
        }
        Ok(Identity {
            key: key.map_err(|why| named(&self.private_key, why))?,
            chain: certificates(&self.certificate)?,
            authority: Arc::new(authority),
            provider: Arc::new(ring::default_provider()),
        })
    }

    /// The side of who has called.
    pub(crate) fn client(&self, stream: TcpStream) -> io::Result<impl Channel + use<>> {
        let Identity { key, chain, authority, provider } = self.read()?;
        let signed = Signed { authority, provider: provider.clone() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(signed))
            .with_client_auth_cert(chain, key)
            .map_err(|why| named(&self.certificate, why))?;
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        let side = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Secure(StreamOwned::new(side, stream)))
    }

    /// The side of who was called.
    pub(crate) fn server(&self, stream: TcpStream) -> io::Result<impl Channel + use<>> {
        let Identity { key, chain, authority, provider } = self.read()?;
        let verifier = WebPkiClientVerifier::builder_with_provider(authority, provider.clone())
            .build()
            .map_err(|why| named(&self.authority, why))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|why| named(&self.certificate, why))?;
        let side = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        Ok(Secure(StreamOwned::new(side, stream)))
    }
}

/// One side of a connection by TLS.
struct Secure<C, S>(StreamOwned<C, TcpStream>)
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData;

impl<C, S> Read for Secure<C, S>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl<C, S> Write for Secure<C, S>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<C, S> AsFd for Secure<C, S>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}

impl<C, S> Channel for Secure<C, S>
where
    C: DerefMut<Target = ConnectionCommon<S>> + Send,
    S: SideData,
{
    fn wants_write(&self) -> bool {
        self.0.conn.wants_write()
    }

    fn end(&mut self) {
        self.0.conn.send_close_notify();
        // Who is gone need not be told.
        let _ = self.0.flush();
    }
}

/// Accepts whom the authority has signed. Controllers are known by their addresses, which certificates seldom have, so that Open
/// vSwitch does not ask for names either: it is the authority that must sign nobody else.
#[derive(Debug)]
struct Signed {
    authority: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Signed {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.authority, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
