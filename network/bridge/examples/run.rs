//! Runs switches until standard input ends.
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("say which file")?;
    let config = fulmar_bridge::Config::read(path.as_ref())?;
    let daemon = fulmar_bridge::Daemon::start(&config, |event| eprintln!("{event}"))?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(daemon);
    Ok(())
}
