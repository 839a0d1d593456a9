//! What a kernel leaves to be done to a frame, and doing it.
//!
//! A kernel completes checksums and cuts segments as late as it can, in the hope of hardware that does it. What is open goes with
//! the frame, in a header that is virtio's (Virtual I/O Device 1.2, section 5.1.6).

mod finish;
mod header;

pub use finish::{Unsound, finish};
pub(crate) use header::{HEADER, read, with_length, write};

/// What is left to be done to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// A checksum that covers its pseudo-header only, so far.
    pub checksum: Option<Checksum>,
    /// It is to be cut into several.
    pub segmentation: Option<Segmentation>,
}

/// A checksum to be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Bytes into the frame, from where on to its end all is summed: the transport header's.
    pub start: u16,
    /// Bytes from there to the checksum.
    pub offset: u16,
}

/// How a frame is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// What it carries.
    pub kind: Kind,
    /// A window of congestion was reduced, which the first segment says only (RFC 3168).
    pub ecn: bool,
    /// Bytes of payload in each segment but the last; never 0.
    pub size: u16,
    /// Bytes of all headers together, or more: how much a kernel should have in one piece.
    pub header: u16,
}

/// What is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either: several datagrams of one size.
    Udp,
}

impl Offload {
    /// Nothing: the frame is as it should be on a wire.
    pub const NONE: Self = Self { checksum: None, segmentation: None };

    /// The same, of a frame with so many bytes before it.
    pub(crate) fn deeper(self, bytes: usize) -> Option<Self> {
        self.moved(|place| place.checked_add(u16::try_from(bytes).ok()?))
    }

    /// The same, of a frame without its first so many bytes.
    pub(crate) fn shallower(self, bytes: usize) -> Option<Self> {
        self.moved(|place| place.checked_sub(u16::try_from(bytes).ok()?))
    }

    fn moved(mut self, by: impl Fn(u16) -> Option<u16>) -> Option<Self> {
        if let Some(checksum) = &mut self.checksum {
            checksum.start = by(checksum.start)?;
        }
        if let Some(segmentation) = &mut self.segmentation {
            segmentation.header = by(segmentation.header)?;
        }
        Some(self)
    }
}
