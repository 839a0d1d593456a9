//! Which controller may change the switch (section 6.3.4).

use crate::switch::SessionId;
use fulmar_openflow::error::RoleRequestFailed;
use fulmar_openflow::role::{Role, RoleMessage};
use std::collections::BTreeMap;

/// The roles of all sessions. There is one master at most.
#[derive(Debug, Default)]
pub(crate) struct Election {
    /// Of those who are not [`Role::Equal`].
    roles: BTreeMap<SessionId, Role>,
    /// The latest election that a controller has told of.
    generation: Option<u64>,
}

impl Election {
    pub(crate) fn role(&self, session: SessionId) -> Role {
        self.roles.get(&session).copied().unwrap_or(Role::Equal)
    }

    /// Gives a session the role that it asks for; who was the master before is a slave then.
    pub(crate) fn request(
        &mut self,
        session: SessionId,
        asked: RoleMessage,
    ) -> Result<RoleMessage, RoleRequestFailed> {
        if matches!(asked.role, Role::Master | Role::Slave) {
            if self.generation.is_some_and(|latest| is_before(asked.generation, latest)) {
                return Err(RoleRequestFailed::Stale);
            }
            self.generation = Some(asked.generation);
        }
        match asked.role {
            Role::NoChange => {}
            Role::Equal => self.leave(session),
            Role::Slave => self.set(session, Role::Slave),
            Role::Master => {
                for role in self.roles.values_mut() {
                    *role = Role::Slave;
                }
                self.set(session, Role::Master);
            }
        }
        // A number that no election has stands for none.
        Ok(RoleMessage { role: self.role(session), generation: self.generation.unwrap_or(u64::MAX) })
    }

    fn set(&mut self, session: SessionId, role: Role) {
        self.roles.insert(session, role);
    }

    /// The session has ended.
    pub(crate) fn leave(&mut self, session: SessionId) {
        self.roles.remove(&session);
    }
}

/// Numbers of elections go round in a circle: of two, the one that is less than half of it behind is the earlier one.
const fn is_before(number: u64, latest: u64) -> bool {
    number.wrapping_sub(latest).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(election: &mut Election, session: u64, role: Role, generation: u64) -> Option<RoleMessage> {
        election.request(SessionId(session), RoleMessage { role, generation }).ok()
    }

    #[test]
    fn there_is_one_master() {
        let mut election = Election::default();
        let nothing = ask(&mut election, 1, Role::NoChange, 77).expect("no election");
        assert_eq!(nothing, RoleMessage { role: Role::Equal, generation: u64::MAX });
        ask(&mut election, 1, Role::Master, 5).expect("the first");
        ask(&mut election, 3, Role::Slave, 5).expect("the same election");
        let second = ask(&mut election, 2, Role::Master, 6).expect("a later one");
        assert_eq!(second, RoleMessage { role: Role::Master, generation: 6 });
        let roles = [1, 2, 3, 4].map(|session| election.role(SessionId(session)));
        assert_eq!(roles, [Role::Slave, Role::Master, Role::Slave, Role::Equal]);
        election.leave(SessionId(2));
        assert_eq!(election.role(SessionId(1)), Role::Slave, "nobody follows by itself");
        // Equal needs no election.
        ask(&mut election, 1, Role::Equal, 0).expect("any number");
        assert_eq!(election.role(SessionId(1)), Role::Equal);
    }

    #[test]
    fn a_switch_does_not_go_back_behind_an_election() {
        let mut election = Election::default();
        ask(&mut election, 1, Role::Master, u64::MAX).expect("the first");
        assert_eq!(ask(&mut election, 2, Role::Master, u64::MAX - 1), None);
        assert_eq!(ask(&mut election, 2, Role::Slave, u64::MAX - 1), None);
        assert_eq!(election.role(SessionId(1)), Role::Master);
        assert!(ask(&mut election, 2, Role::Master, 0).is_some(), "it goes round");
        assert_eq!(ask(&mut election, 1, Role::Master, 1 << 63), None, "half of the circle is behind");
    }
}
