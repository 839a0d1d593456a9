//! Which controller may change the switch (section 6.3.4).

use fulmar_openflow::error::RoleRequestFailed;
use fulmar_openflow::role::{Role, RoleMessage};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The role of a session.
#[derive(Debug)]
pub(crate) struct Standing {
    role: Mutex<Role>,
    /// Held while something that the session has asked for is carried out.
    busy: Mutex<()>,
}

impl Default for Standing {
    fn default() -> Self {
        Self { role: Mutex::new(Role::Equal), busy: Mutex::default() }
    }
}

impl Standing {
    pub(crate) fn role(&self) -> Role {
        *self.role.lock()
    }

    /// Nobody else makes it a slave until this is let go.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.busy.lock()
    }

    /// Waits until nothing that it has asked for is being carried out.
    fn make_slave(&self) {
        let _idle = self.hold();
        *self.role.lock() = Role::Slave;
    }
}

/// Who is the master. There is one at most.
#[derive(Debug, Default)]
pub(crate) struct Election {
    master: Option<Arc<Standing>>,
    /// The latest election that a controller has told of.
    generation: Option<u64>,
}

impl Election {
    /// Gives a session, which is not held, the role that it asks for; by Nicira's extension, without the number of an election. Who was the master before is a slave then, and nothing that it
    /// has asked for is carried out any more.
    pub(crate) fn request(
        &mut self,
        session: &Arc<Standing>,
        role: Role,
        generation: Option<u64>,
    ) -> Result<RoleMessage, RoleRequestFailed> {
        if matches!(role, Role::Master | Role::Slave)
            && let Some(generation) = generation
        {
            if self.generation.is_some_and(|latest| is_before(generation, latest)) {
                return Err(RoleRequestFailed::Stale);
            }
            self.generation = Some(generation);
        }
        if role != Role::NoChange {
            self.master.take_if(|master| Arc::ptr_eq(master, session));
            *session.role.lock() = role;
        }
        if role == Role::Master
            && let Some(before) = self.master.replace(session.clone())
        {
            before.make_slave();
        }
        // A number that no election has stands for none.
        Ok(RoleMessage { role: session.role(), generation: self.generation.unwrap_or(u64::MAX) })
    }
}

/// Numbers of elections go round in a circle: of two, the one that is less than half of it behind is the earlier one.
const fn is_before(number: u64, latest: u64) -> bool {
    number.wrapping_sub(latest).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(
        election: &mut Election,
        session: &Arc<Standing>,
        role: Role,
        generation: u64,
    ) -> Option<RoleMessage> {
        election.request(session, role, Some(generation)).ok()
    }

    #[test]
    fn there_is_one_master() {
        let mut election = Election::default();
        let [first, second, third, fourth] = <[Arc<Standing>; 4]>::default();
        let nothing = ask(&mut election, &first, Role::NoChange, 77).expect("no election");
        assert_eq!(nothing, RoleMessage { role: Role::Equal, generation: u64::MAX });
        ask(&mut election, &first, Role::Master, 5).expect("the first");
        ask(&mut election, &third, Role::Slave, 5).expect("the same election");
        let given = ask(&mut election, &second, Role::Master, 6).expect("a later one");
        assert_eq!(given, RoleMessage { role: Role::Master, generation: 6 });
        let roles = [&first, &second, &third, &fourth].map(|session| session.role());
        assert_eq!(roles, [Role::Slave, Role::Master, Role::Slave, Role::Equal]);
        // Equal needs no election, and who is equal stays so.
        ask(&mut election, &second, Role::Equal, 0).expect("any number");
        ask(&mut election, &first, Role::Master, 6).expect("the same election");
        ask(&mut election, &first, Role::Master, 7).expect("again");
        assert_eq!([first.role(), second.role()], [Role::Master, Role::Equal]);
    }

    #[test]
    fn a_switch_does_not_go_back_behind_an_election() {
        let mut election = Election::default();
        let [first, second] = <[Arc<Standing>; 2]>::default();
        ask(&mut election, &first, Role::Master, u64::MAX).expect("the first");
        assert_eq!(ask(&mut election, &second, Role::Master, u64::MAX - 1), None);
        assert_eq!(ask(&mut election, &second, Role::Slave, u64::MAX - 1), None);
        assert_eq!([first.role(), second.role()], [Role::Master, Role::Equal]);
        assert!(ask(&mut election, &second, Role::Master, 0).is_some(), "it goes round");
        assert_eq!(ask(&mut election, &first, Role::Master, 1 << 63), None, "half of the circle is behind");
    }
}
