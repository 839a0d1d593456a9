//! The controllers that a bridge's switch has.

use super::{DATABASE, Running};
use crate::configuration::BridgeWanted;
use crate::event::{EventKind, Report};
use fulmar_session::{Settings, Target, TargetError};
use std::path::{Path, PathBuf};

/// So many controllers a bridge has, each with a thread.
const MOST_CONTROLLERS: usize = 64;

impl Running {
    /// Before its ports join: what it does with their frames, and that controllers which it is to have no more are gone. New ones find the
    /// bridge as the whole transaction makes it.
    pub(super) fn prepare_for_controllers(
        &mut self,
        wanted: &BridgeWanted,
        place: (&str, &Path),
        report: &Report,
    ) {
        if wanted.controllers.is_empty() {
            self.set_controllers(wanted, place, report);
        } else {
            self.bridge.set_mode(true, wanted.fail_mode);
        }
    }

    pub(super) fn set_controllers(
        &mut self,
        wanted: &BridgeWanted,
        (name, directory): (&str, &Path),
        report: &Report,
    ) {
        let controllers = self.controllers(wanted, directory);
        if let Err(why) = self.bridge.set_controllers(controllers, wanted.fail_mode) {
            report(&EventKind::Bridge.event(format!("bridge {name}: controllers: {why}")));
        }
    }

    /// Those that can be; why others cannot, is remembered.
    fn controllers(&mut self, wanted: &BridgeWanted, directory: &Path) -> Vec<(Target, Settings)> {
        let mut controllers = Vec::new();
        self.refused.clear();
        for controller in &wanted.controllers {
            if controllers.len() >= MOST_CONTROLLERS {
                let why = format!("a bridge has {MOST_CONTROLLERS} controllers at most");
                self.refused.insert(controller.target.clone(), why);
                continue;
            }
            match target(&controller.target, directory) {
                Ok(target) => controllers.push((target, controller.settings.clone())),
                Err(why) => drop(self.refused.insert(controller.target.clone(), why)),
            }
        }
        controllers
    }
}

/// Where a controller is. Sockets of the file system are in the switches' directory only, as Open vSwitch has it: who may write to the
/// configuration database does not choose what this process connects to, or makes, elsewhere.
pub(super) fn target(text: &str, directory: &Path) -> Result<Target, String> {
    let inside = |path: PathBuf| {
        let path = directory.join(path);
        let name = path.file_name().filter(|_| path.parent() == Some(directory));
        let Some(name) = name else {
            return Err(format!(
                "a controller's socket is in {} only: not {}",
                directory.display(),
                path.display()
            ));
        };
        // The database and what is written in its place are there, too.
        if name.as_encoded_bytes().starts_with(DATABASE.as_bytes()) {
            return Err(format!(
                "{} is the configuration database's: name the socket otherwise",
                path.display()
            ));
        }
        Ok(path)
    };
    match text.parse().map_err(|why: TargetError| why.to_string())? {
        Target::Unix(path) => inside(path).map(Target::Unix),
        Target::PassiveUnix(path) => inside(path).map(Target::PassiveUnix),
        target => Ok(target),
    }
}
