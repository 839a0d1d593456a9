//! Messages that wait until all of them take effect at once (extension 230 of the Open Networking Foundation).

use crate::share::Share;
use fulmar_openflow::Message;
use fulmar_openflow::bundle::{BundleAdd, BundleCommand, BundleControl, BundleFlags};
use fulmar_openflow::error::Onf;
use std::collections::BTreeMap;

/// So many bundles may a session have…
const BUNDLES: usize = 16;
/// …with so many messages in all of them…
const MESSAGES: usize = 100_000;
/// …of so many bytes, if [others](crate::share) have not too many.
const BYTES: usize = 16 << 20;

#[derive(Debug)]
struct Bundle {
    flags: BundleFlags,
    is_closed: bool,
    messages: Vec<Message>,
    bytes: usize,
}

/// The bundles of a session. A bundle with which something is wrong is gone.
#[derive(Debug)]
pub(crate) struct Bundles {
    bundles: BTreeMap<u32, Bundle>,
    share: Share,
}

/// What follows from a control message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// This answer.
    Done(BundleCommand),
    /// These messages are to be carried out, and then [`BundleCommand::Committed`].
    Commit(Vec<Message>),
}

impl Bundles {
    pub(crate) const fn new(share: Share) -> Self {
        Self { bundles: BTreeMap::new(), share }
    }

    pub(crate) fn control(&mut self, control: &BundleControl) -> Result<Control, Onf> {
        let done = self.controlled(control);
        // What is to be carried out is there until it is.
        if !matches!(done, Ok(Control::Commit(_))) {
            self.give_back();
        }
        done
    }

    /// What is gone leaves room for what others keep.
    pub(crate) fn give_back(&mut self) {
        let (_, bytes) = self.kept();
        assert!(self.share.keep(bytes), "it is not more than before");
    }

    fn controlled(&mut self, control: &BundleControl) -> Result<Control, Onf> {
        let BundleControl { bundle, command, flags } = *control;
        match command {
            BundleCommand::Open => {
                if self.bundles.remove(&bundle).is_some() {
                    return Err(Onf::BundleExists);
                }
                self.open(bundle, flags)?;
                Ok(Control::Done(BundleCommand::Opened))
            }
            BundleCommand::Close => {
                let mut closed = self.take(bundle, flags)?;
                if closed.is_closed {
                    return Err(Onf::BundleClosed);
                }
                closed.is_closed = true;
                self.bundles.insert(bundle, closed);
                Ok(Control::Done(BundleCommand::Closed))
            }
            BundleCommand::Commit => Ok(Control::Commit(self.take(bundle, flags)?.messages)),
            BundleCommand::Discard => {
                self.bundles.remove(&bundle).ok_or(Onf::BundleBadId)?;
                Ok(Control::Done(BundleCommand::Discarded))
            }
            BundleCommand::Opened
            | BundleCommand::Closed
            | BundleCommand::Committed
            | BundleCommand::Discarded => Err(Onf::BundleBadType),
        }
    }

    /// Another message, of so many bytes. A bundle that there is not is opened by it.
    pub(crate) fn add(&mut self, add: BundleAdd, length: usize) -> Result<(), Onf> {
        let added = self.added(add, length);
        self.give_back();
        added
    }

    fn added(&mut self, add: BundleAdd, length: usize) -> Result<(), Onf> {
        if !self.bundles.contains_key(&add.bundle) {
            self.open(add.bundle, add.flags)?;
        }
        let mut bundle = self.take(add.bundle, add.flags)?;
        if bundle.is_closed {
            return Err(Onf::BundleClosed);
        }
        let (messages, bytes) = self.kept();
        let (messages, bytes) = (messages + bundle.messages.len(), bytes + bundle.bytes + length);
        if messages >= MESSAGES || bytes > BYTES || !self.share.keep(bytes) {
            return Err(Onf::BundleTooMany);
        }
        bundle.messages.push(*add.message);
        bundle.bytes += length;
        self.bundles.insert(add.bundle, bundle);
        Ok(())
    }

    /// So many messages of so many bytes.
    fn kept(&self) -> (usize, usize) {
        let kept = self.bundles.values();
        kept.fold((0, 0), |(messages, bytes), kept| (messages + kept.messages.len(), bytes + kept.bytes))
    }

    fn open(&mut self, bundle: u32, flags: BundleFlags) -> Result<(), Onf> {
        if self.bundles.len() >= BUNDLES {
            return Err(Onf::OutOfBundles);
        }
        let opened = Bundle { flags, is_closed: false, messages: Vec::new(), bytes: 0 };
        self.bundles.insert(bundle, opened);
        Ok(())
    }

    /// Takes a bundle out, to which nothing else happens if the flags are not as before.
    fn take(&mut self, bundle: u32, flags: BundleFlags) -> Result<Bundle, Onf> {
        let taken = self.bundles.remove(&bundle).ok_or(Onf::BundleBadId)?;
        if taken.flags == flags { Ok(taken) } else { Err(Onf::BundleBadFlags) }
    }
}
