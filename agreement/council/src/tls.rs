//! TLS 1.3 between members who know each other's keys: no certificates, no names, no authority (RFC 7250, raw public keys).

use crate::key::{Identity, PublicKey};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{default_provider, sign};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime, alg_id};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, public_key_to_spki};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    ServerConnection, SignatureScheme, StreamOwned,
};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// The side of who has called.
pub(crate) type Called = StreamOwned<ClientConnection, TcpStream>;
/// The side of who was called.
pub(crate) type Answered = StreamOwned<ServerConnection, TcpStream>;

/// The keys that the other side may have, of which it must prove that it has one.
#[derive(Debug)]
struct Pinned {
    keys: Vec<PublicKey>,
    provider: Arc<CryptoProvider>,
}

fn spki(key: &PublicKey) -> SubjectPublicKeyInfoDer<'static> {
    public_key_to_spki(&alg_id::ED25519, key.as_bytes())
}

/// The key in what an Ed25519 key is sent as: its last bytes.
fn key_of(spki: &[u8]) -> Option<PublicKey> {
    let key = PublicKey::from_bytes(*spki.last_chunk()?);
    (self::spki(&key).as_ref() == spki).then_some(key)
}

impl Pinned {
    fn check(&self, sent: &CertificateDer<'_>) -> Result<(), Error> {
        let key = key_of(sent).ok_or_else(|| Error::General("its key is not an Ed25519 key".into()))?;
        if self.keys.contains(&key) {
            return Ok(());
        }
        let expected = match &self.keys[..] {
            [expected] => format!("its key is {key}, and not {expected}"),
            _ => format!("its key is {key}, which is no other member's"),
        };
        Err(Error::General(expected))
    }

    fn verify(
        &self,
        message: &[u8],
        sent: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(sent.as_ref()),
            signature,
            algorithms,
        )
    }
}

fn never() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not spoken here".into()))
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        sent: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(sent).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _sent: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        never()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        sent: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, sent, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        sent: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(sent).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _sent: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        never()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        sent: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, sent, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn certified(identity: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    let sent = CertificateDer::from(spki(&identity.public()).as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![sent], sign::any_eddsa_type(identity.pkcs8())?)))
}

/// Finishes the handshake with who was called, and who must have this `key`.
pub(crate) fn call(mut stream: TcpStream, identity: &Identity, key: PublicKey) -> io::Result<Called> {
    let provider = Arc::new(default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { keys: vec![key], provider }))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
            certified(identity).map_err(io::Error::other)?,
        )));
    let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
    let mut side = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while side.is_handshaking() {
        side.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(side, stream))
}

/// Finishes the handshake with who has called, and who must have one of these `keys`. Says which.
pub(crate) fn answer(
    mut stream: TcpStream,
    identity: &Identity,
    keys: Vec<PublicKey>,
) -> io::Result<(Answered, PublicKey)> {
    let provider = Arc::new(default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::new(Pinned { keys, provider }))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
            certified(identity).map_err(io::Error::other)?,
        )));
    // Sessions are not resumed: there would be nothing to gain, and keys to keep.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let mut side = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    while side.is_handshaking() {
        side.complete_io(&mut stream)?;
    }
    let key = side.peer_certificates().and_then(|sent| key_of(sent.first()?));
    let key = key.ok_or_else(|| io::Error::other("it has no key"))?;
    Ok((StreamOwned::new(side, stream), key))
}
