//! Where results go: the shell's standard output, or for a while a file or a command.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::{Child, Command, Stdio};

/// The sink of all results. Errors go elsewhere.
pub(crate) struct Output {
    standard: Box<dyn Write>,
    redirect: Option<Redirect>,
    /// Set by `.once`: the redirection ends with the next command.
    once: bool,
}

struct Redirect {
    name: String,
    sink: Sink,
}

enum Sink {
    File(BufWriter<File>),
    Command(Child),
    Nowhere,
}

impl Output {
    pub(crate) fn new(standard: Box<dyn Write>) -> Self {
        Self { standard, redirect: None, once: false }
    }

    /// What `.show` calls it.
    pub(crate) fn name(&self) -> &str {
        self.redirect.as_ref().map_or("stdout", |redirect| &redirect.name)
    }

    /// Whether results go to the standard output.
    pub(crate) fn is_standard(&self) -> bool {
        self.redirect.is_none()
    }

    /// Sends results to `target` from now on, or only those of the next command: `stdout`, `off`, a file, or a
    /// command after a bar. `opening` is written first.
    pub(crate) fn redirect(&mut self, target: &str, once: bool, opening: &[u8]) -> io::Result<()> {
        self.restore()?;
        let sink = match (target, target.strip_prefix('|')) {
            ("stdout", _) => return Ok(()),
            ("off", _) => Sink::Nowhere,
            (_, Some(command)) => Sink::Command(shell_command(command).stdin(Stdio::piped()).spawn()?),
            _ => Sink::File(BufWriter::new(File::create(target)?)),
        };
        self.redirect = Some(Redirect { name: target.to_owned(), sink });
        self.once = once;
        self.write_all(opening)
    }

    /// Ends a redirection: what is buffered is written, and a command is waited for.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        self.once = false;
        match self.redirect.take().map(|redirect| redirect.sink) {
            Some(Sink::File(mut file)) => file.flush(),
            Some(Sink::Command(mut child)) => {
                drop(child.stdin.take());
                child.wait().map(|_status| ())
            }
            Some(Sink::Nowhere) | None => Ok(()),
        }
    }

    /// A command has ended: so does a redirection that was for it alone.
    pub(crate) fn command_ended(&mut self) -> io::Result<()> {
        if self.once { self.restore() } else { self.flush() }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.redirect.as_mut().map(|redirect| &mut redirect.sink) {
            None => self.standard.write(bytes),
            Some(Sink::File(file)) => file.write(bytes),
            Some(Sink::Nowhere) => Ok(bytes.len()),
            Some(Sink::Command(child)) => match child.stdin.as_mut().map(|stdin| stdin.write(bytes)) {
                // A command such as `head` may stop reading; that ends its output, not the session.
                Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
                Some(written) => written,
                None => Ok(bytes.len()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.redirect.as_mut().map(|redirect| &mut redirect.sink) {
            None => self.standard.flush(),
            Some(Sink::File(file)) => file.flush(),
            Some(Sink::Command(_) | Sink::Nowhere) => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // The place to report an error is `restore`; here the session is over.
        let _ = self.restore();
        let _ = self.standard.flush();
    }
}

/// A command line as the system's shell runs it.
pub(crate) fn shell_command(line: &str) -> Command {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut command = Command::new(shell);
    command.arg(flag).arg(line);
    command
}
