//! Sessions of the shell, and the program as it is run.

mod agree;
mod cluster;
mod discover;
mod disk;
mod docs;
mod dump;
mod files;
mod founding;
mod functions;
mod interrupts;
mod lab;
mod logging;
mod program;
mod programs;
mod replicas;
mod server;
mod services;
mod sessions;
mod sharing;
mod strangers;
mod transfer;
mod users;
