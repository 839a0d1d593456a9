//! The first words on a connection: do both mean the same council?

use crate::key::Digest;
use std::io::{self, Read, Write};
use thiserror::Error;

/// What a caller says first, before the digest of its council: the protocol and its version.
const HELLO: [u8; 8] = *b"fulmar\0\x01";

/// Why a connection is of no use.
#[derive(Debug, Error)]
pub(crate) enum Refused {
    #[error("it speaks another version of the protocol: run the same fulmar everywhere")]
    Version,
    #[error(
        "it means council {theirs}, and this one {own}: name, members, tolerates and round_ms must be the same everywhere"
    )]
    Council { theirs: Digest, own: Digest },
    #[error("the session has begun")]
    Begun,
    #[error(transparent)]
    Io(#[from] io::Error),
}

const WELCOME: u8 = 0;
const BEGUN: u8 = 1;
const OTHER: u8 = 2;

/// The caller's part.
pub(crate) fn call(stream: &mut (impl Read + Write), own: Digest) -> Result<(), Refused> {
    stream.write_all(&[&HELLO[..], own.as_bytes()].concat())?;
    stream.flush()?;
    let mut answer = [0; 41];
    stream.read_exact(&mut answer)?;
    let (hello, [code, theirs @ ..]) = answer.split_at(8) else { return Err(Refused::Version) };
    if hello != HELLO {
        return Err(Refused::Version);
    }
    match *code {
        WELCOME => Ok(()),
        BEGUN => Err(Refused::Begun),
        OTHER => {
            let theirs = theirs.try_into().map(Digest::from_bytes).map_err(|_| Refused::Version)?;
            Err(Refused::Council { theirs, own })
        }
        _ => Err(Refused::Version),
    }
}

/// The part of who is called.
pub(crate) fn answer(stream: &mut (impl Read + Write), own: Digest, is_open: bool) -> Result<(), Refused> {
    let mut hello = [0; 40];
    stream.read_exact(&mut hello)?;
    let (hello, theirs) = hello.split_at(8);
    let theirs = theirs.try_into().map(Digest::from_bytes).map_err(|_| Refused::Version)?;
    let (code, outcome) = if hello != HELLO {
        (OTHER, Err(Refused::Version))
    } else if theirs != own {
        (OTHER, Err(Refused::Council { theirs, own }))
    } else if is_open {
        (WELCOME, Ok(()))
    } else {
        (BEGUN, Err(Refused::Begun))
    };
    stream.write_all(&[&HELLO[..], &[code], own.as_bytes()].concat())?;
    stream.flush()?;
    outcome
}
