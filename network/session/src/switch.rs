//! Who does what sessions ask for.

use fulmar_openflow::error::SwitchConfigFailed;
use fulmar_openflow::switch::Fragments;
use fulmar_openflow::{Body, ErrorCode, Message, Version};

/// The number of a session: no other session of this process has had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The session.
    pub session: SessionId,
    /// The number of the message, by which flow monitors tell their own changes.
    pub xid: u32,
}

/// What a switch does at its controllers' word. It is called from several threads, one for each session.
///
/// It may [tell](crate::Sessions::tell) sessions something meanwhile. It must not change [who they are](crate::Sessions::set_controllers),
/// nor wait for whoever does: that waits for what is being carried out.
pub trait Switch: Send + Sync + 'static {
    /// Carries a request out; its effects have taken place, for every packet that comes in after this has returned. Answers with what
    /// is to be sent back: a multipart reply as one, which the session cuts in parts.
    ///
    /// # Errors
    /// What the asker is told; then nothing is done.
    fn request(&self, asker: &Asker, body: Body) -> Result<Vec<Body>, ErrorCode>;

    /// Carries out all of these or none, at once: a bundle. The number of each message is what [`Asker::xid`] would be of it alone.
    ///
    /// # Errors
    /// Which of them is wrong, and how.
    fn commit(&self, asker: &Asker, messages: &[Message]) -> Result<(), (usize, ErrorCode)>;

    /// What happens to fragments of IP packets.
    fn fragments(&self) -> Fragments {
        Fragments::Normal
    }

    /// From now on this happens to fragments.
    ///
    /// # Errors
    /// What the asker is told, if the switch cannot do that.
    fn set_fragments(&self, fragments: Fragments) -> Result<(), SwitchConfigFailed> {
        if fragments == Fragments::Normal { Ok(()) } else { Err(SwitchConfigFailed::BadFlags) }
    }

    /// A controller has come, which speaks this version.
    fn came(&self, _session: SessionId, _version: Version) {}

    /// The session has ended: what it watches is no longer told to anybody.
    fn gone(&self, session: SessionId);
}
