//! This program, started again and again.

use super::hosts::{self, Line};
use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

/// Processes of nodes. Dropped, they are ended; if this one is killed, they end by themselves.
pub(crate) struct Processes {
    children: Vec<Child>,
    /// What each says, line by line; nothing behind its last one.
    told: Receiver<(usize, Option<String>)>,
    /// By their own number: those of which no line is awaited any more.
    killed: Vec<usize>,
}

impl Processes {
    pub(crate) fn start(count: usize) -> Result<Self, Box<dyn Error>> {
        let program = env::current_exe()?;
        let (sender, told) = channel();
        let mut processes = Self { children: Vec::new(), told, killed: Vec::new() };
        for number in 0..count {
            let mut command = Command::new(&program);
            command.arg(hosts::ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let output = child.stdout.take();
            processes.children.push(child);
            let output = BufReader::new(output.ok_or("a process without output")?);
            let sender = sender.clone();
            thread::spawn(move || {
                let lines = output.lines().map_while(Result::ok).map(Some);
                // Who does not listen any more has seen enough.
                lines.chain([None]).try_for_each(|line| sender.send((number, line)))
            });
        }
        Ok(processes)
    }

    pub(crate) fn tell(&mut self, number: usize, line: &str) -> io::Result<()> {
        let input = self.children[number].stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{line}")
    }

    /// The next line of any, and of which; nothing, if none comes before that moment.
    pub(crate) fn next(&mut self, until: Instant) -> Result<Option<(usize, Line)>, Box<dyn Error>> {
        loop {
            match self.told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((number, _)) if self.killed.contains(&number) => {}
                Ok((number, Some(line))) => return Ok(Some((number, line.parse()?))),
                Ok((number, None)) => return Err(format!("process {number} has ended").into()),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err("all processes have ended".into()),
            }
        }
    }

    /// Ends a process by SIGKILL.
    pub(crate) fn kill(&mut self, number: usize) -> io::Result<()> {
        self.killed.push(number);
        self.children[number].kill()?;
        self.children[number].wait().map(drop)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
