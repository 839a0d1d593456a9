//! A client of locks.

use crate::chance::by_chance;
use crate::lease::{Lease, keep, since_boot};
use crate::{CallError, Caller, Charter};
use fulmar_replication::applications::{Fence, LockAnswer, LockMode, LockOperation, Locks, SessionId};
use std::thread;
use std::time::Duration;

/// How often one who waits for a lock looks whether it has it.
const LOOK: Duration = Duration::from_millis(100);

/// A lock that is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The session has expired, and all its locks are lost.
    #[error("the session has expired: no majority of the replicas has heard of it in time")]
    Expired,
    /// It holds the lock to read, and cannot have it to write.
    #[error("the session holds the lock to read, and so do others: release it before you take it to write")]
    Shared,
    /// Nobody can tell.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A session: holds locks until it is closed, or expires because a majority of the replicas has not heard of it for some time.
///
/// A thread of its own keeps it alive. It takes itself for expired before the replicas do. In a child of `fork` it is over: the session is the
/// parent's.
#[derive(Debug)]
pub struct LockSession {
    caller: Caller,
    id: SessionId,
    lease: Lease,
}

impl LockSession {
    /// No session lives for longer that is not heard of: a day, but for a second.
    pub const LONGEST: Duration = Duration::from_secs((Locks::MOST_TICKS - 1) * Locks::TICK.as_secs());

    /// Opens one that expires if this process is not heard of for so long, or some seconds more: for [`Self::LONGEST`] if it is more.
    ///
    /// # Errors
    /// [`CallError`]
    pub fn open(charter: &Charter, expires: Duration) -> Result<Self, CallError> {
        let expires = expires.min(Self::LONGEST);
        let (mut caller, renewer) = (Caller::new(charter)?, Caller::new(charter)?);
        // One more, as clocks run differently.
        let ticks = u64::try_from(expires.as_nanos().div_ceil(Locks::TICK.as_nanos())).unwrap_or(u64::MAX);
        let asked = since_boot();
        let session = SessionId::drawn(by_chance().map_err(CallError::Chance)?);
        let open = LockOperation::Open { ticks: ticks.saturating_add(1), session: Some(session) };
        let id = match caller.invoke_lock(&open)? {
            LockAnswer::Opened(id) => id,
            other => return Err(CallError::Answer(format!("{other:?}").into())),
        };
        let lease = Lease::new(asked, expires);
        let kept = lease.clone();
        thread::spawn(move || keep(&kept, renewer, id));
        Ok(Self { caller, id, lease })
    }

    /// Until when it holds its locks.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Takes a lock, and waits behind all who wait for it already. Returns its fencing token, which is larger than that of all
    /// who were given the lock before: see [`FenceFile`](crate::FenceFile).
    ///
    /// # Errors
    /// [`LockError`]
    pub fn acquire(&mut self, name: &[u8], mode: LockMode) -> Result<Fence, LockError> {
        let acquire = LockOperation::Acquire { session: self.id, name: name.into(), mode, waits: true };
        let mut answer = self.caller.invoke_lock(&acquire)?;
        let look = LockOperation::Look(self.id, name.into()).encode();
        loop {
            match answer {
                LockAnswer::Held(fence) if !self.lease.is_over() => return Ok(fence),
                LockAnswer::Waits if !self.lease.is_over() => thread::sleep(LOOK),
                LockAnswer::Held(_) | LockAnswer::Waits | LockAnswer::Gone => return Err(LockError::Expired),
                LockAnswer::Shared => return Err(LockError::Shared),
                other => return Err(CallError::Answer(format!("{other:?}").into()).into()),
            }
            let told = self.caller.query(look.clone())?;
            answer = LockAnswer::decode(&told).ok_or(CallError::Answer(told))?;
        }
    }

    /// Gives a lock up.
    ///
    /// # Errors
    /// [`LockError`]
    pub fn release(&mut self, name: &[u8]) -> Result<(), LockError> {
        match self.caller.invoke_lock(&LockOperation::Release(self.id, name.into()))? {
            LockAnswer::Gone => Err(LockError::Expired),
            _ => Ok(()),
        }
    }

    /// Ends the session, and gives up all its locks.
    ///
    /// # Errors
    /// [`LockError`]
    pub fn close(mut self) -> Result<(), LockError> {
        self.lease.end();
        match self.caller.invoke_lock(&LockOperation::Close(self.id))? {
            LockAnswer::Gone => Err(LockError::Expired),
            _ => Ok(()),
        }
    }
}

impl Drop for LockSession {
    /// It expires by itself.
    fn drop(&mut self) {
        self.lease.end();
    }
}
