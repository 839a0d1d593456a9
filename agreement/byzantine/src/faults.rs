//! Who is known to be faulty, and known by all to be (section 2: F and FA).

use crate::Processes;

/// The sets F and FA of a process, and who accused whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// F: who was found to be faulty, by the process itself or by t + 1.
    pub(crate) found: Processes,
    /// FA: who all correct processes have in F.
    pub(crate) agreed: Processes,
    /// By accused: who has it in its F. F never shrinks, so an accusation is never taken back.
    accusers: Vec<Processes>,
}

impl Faults {
    pub(crate) fn new(n: usize) -> Self {
        Self {
            found: Processes::default(),
            agreed: Processes::default(),
            accusers: vec![Processes::default(); n],
        }
    }

    /// Takes in that `accuser` has `accused` in its F.
    pub(crate) fn hear(&mut self, accuser: u8, accused: Processes) {
        for (process, accusers) in (0..).zip(&mut self.accusers) {
            if accused.contains(process) {
                accusers.insert(accuser);
            }
        }
    }

    /// Adds to F whom t + 1 accuse, of which one is correct, and to FA whom 2t + 1 accuse, of which t + 1 are.
    pub(crate) fn count(&mut self, me: u8, t: usize) {
        for (process, accusers) in (0..).zip(&self.accusers) {
            if process != me && accusers.len() > t {
                self.found.insert(process);
            }
            if accusers.len() > 2 * t {
                self.agreed.insert(process);
            }
        }
    }
}
