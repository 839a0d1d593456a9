//! Who a member is: an Ed25519 key (RFC 8032), whose public half its friends write down.

use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use fulmar_byzantine::Wire;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What stands before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Why something is no key, digest or signature.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// It is not so many hexadecimal digits.
    #[error("{0:?} is not what was expected: {1} hexadecimal digits")]
    Digits(String, usize),
    /// It is no private key that can be used here.
    #[error("it holds no Ed25519 key in PEM (PKCS #8): expected what `fulmar agree keygen` writes")]
    Private,
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

macro_rules! bytes {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $length]);

        impl $name {
            /// That of these bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; $length]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = KeyError;

            fn from_str(text: &str) -> Result<Self, KeyError> {
                let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                bytes.map(Self).ok_or_else(|| KeyError::Digits(text.into(), 2 * $length))
            }
        }

        impl Wire for $name {
            fn encode(&self, bytes: &mut Vec<u8>) {
                self.0.encode(bytes);
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                <[u8; $length]>::decode(bytes).map(Self)
            }
        }
    };
}

bytes! {
    /// The public half of a member's key. As text, 64 hexadecimal digits.
    PublicKey, 32
}
bytes! {
    /// The SHA-256 of something. As text, 64 hexadecimal digits, as `sha256sum` prints it.
    Digest, 32
}
bytes! {
    /// A signature by a member's key. As text, 128 hexadecimal digits.
    Signature, 64
}

impl Digest {
    /// That of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Self(digest)
    }
}

impl PublicKey {
    /// Whether this key's owner has signed `bytes`.
    #[must_use]
    pub fn has_signed(&self, bytes: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, &signature.0).is_ok()
    }
}

/// A member's key, both halves.
pub struct Identity {
    pair: Ed25519KeyPair,
    pkcs8: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// That of these 32 secret bytes.
    ///
    /// # Panics
    /// Never: any 32 bytes are a key.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("32 bytes are a key");
        Self { pair, pkcs8: [&PKCS8[..], seed].concat().into() }
    }

    /// A new one, as PEM, for a file that nobody else can read.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn generate() -> Result<String, KeyError> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| KeyError::Random)?;
        let body = BASE64.encode(&[&PKCS8[..], &seed].concat());
        Ok(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
    }

    /// That in a file in PEM; one that `openssl genpkey -algorithm ed25519` has made will do, too.
    ///
    /// # Errors
    /// [`KeyError::Private`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let Ok(PrivateKeyDer::Pkcs8(pkcs8)) = PrivateKeyDer::from_pem_slice(pem) else {
            return Err(KeyError::Private);
        };
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8.secret_pkcs8_der());
        Ok(Self { pair: pair.map_err(|_| KeyError::Private)?, pkcs8 })
    }

    /// The half that others may know.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }

    /// Signs `bytes`.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Signature {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(bytes).as_ref());
        Signature(signature)
    }

    /// As TLS wants it.
    pub(crate) fn pkcs8(&self) -> &PrivatePkcs8KeyDer<'static> {
        &self.pkcs8
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_and_read() {
        let pem = Identity::generate().expect("random numbers");
        let identity = Identity::from_pem(pem.as_bytes()).expect("it is one");
        let signature = identity.sign(b"eggs");
        assert!(identity.public().has_signed(b"eggs", &signature));
        assert!(!identity.public().has_signed(b"nests", &signature));
        assert_eq!(identity.public().to_string().parse(), Ok(identity.public()));
        assert_eq!(Identity::from_pem(b"eggs").expect_err("it is none"), KeyError::Private);
    }

    /// RFC 8032, section 7.1, test 1; and SHA-256 of nothing.
    #[test]
    fn keys_and_digests_are_those_of_the_standards() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let seed: Digest = seed.parse().expect("64 digits");
        let public = Identity::from_seed(seed.as_bytes()).public().to_string();
        assert_eq!(public, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let nothing = Digest::of(b"").to_string();
        assert_eq!(nothing, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn what_is_no_key_is_named() {
        let error = "eggs".parse::<PublicKey>().expect_err("it is none");
        assert_eq!(error.to_string(), "\"eggs\" is not what was expected: 64 hexadecimal digits");
    }
}
