//! What the operating system, or a person, asks of the process by a signal.

pub(crate) use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;

/// Does something each time that one of these signals arrives, in a thread of its own.
///
/// # Errors
/// What the system says if it does not let the process listen.
pub(crate) fn on(signals: &[i32], mut react: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || signals.forever().for_each(|_| react()))
        .map(drop)
}
