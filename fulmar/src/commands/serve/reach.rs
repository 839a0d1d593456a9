//! Whether others reach a server where they are told that it is.

use crate::ending::BadUsage;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

/// So long a connection of a server with itself may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Whoever connects has said something by then, or is somebody else.
const SAID: Duration = Duration::from_millis(500);
/// How often the server looks whether it has come.
const LOOK: Duration = Duration::from_millis(5);

/// Requires that `advertised` leads to the listener, as seen from here. Nobody else is served yet.
pub(super) fn require(listener: &TcpListener, advertised: &str) -> Result<(), Box<dyn Error>> {
    let own = listener.local_addr()?;
    let unspecified = |address: SocketAddr| {
        BadUsage::new(format_args!(
            "{address} is every address of this machine, and others need one of them: write `advertise = \"HOST:{}\"` into \
             the settings, or `--advertise HOST:{}`, with the name or the IP address by which they reach this machine",
            own.port(),
            own.port()
        ))
    };
    let wrong = |why: &str| {
        format!(
            "`advertise` = {advertised}: {why}, so others would not find this server there; write the HOST:PORT which leads to \
             {own} on this machine"
        )
    };
    let resolved = advertised.to_socket_addrs().map_err(|why| wrong(&why.to_string()))?.next();
    let address = resolved.ok_or_else(|| wrong("no host of this name is known"))?;
    if address.ip().is_unspecified() {
        return Err(unspecified(address).into());
    }
    if address == own {
        return Ok(());
    }
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|why| wrong(&why.to_string()))?;
    // Something between may change the addresses, but not what is said.
    let word = fulmar_cluster::new_cluster()?.to_be_bytes();
    stream.write_all(&word).map_err(|why| wrong(&why.to_string()))?;
    if hears(listener, word)? { Ok(()) } else { Err(wrong("another program answers there").into()) }
}

/// Whether the word comes in.
fn hears(listener: &TcpListener, word: [u8; 16]) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    listener.set_nonblocking(true)?;
    while Instant::now() < until {
        match listener.accept() {
            // Whoever else it is comes again.
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(SAID))?;
                let mut said = [0; 16];
                if stream.read_exact(&mut said).is_ok() && said == word {
                    return Ok(true);
                }
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => thread::sleep(LOOK),
            Err(why) => return Err(why),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_server_finds_itself_where_it_says_that_it_is() {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        assert!(require(&listener, &format!("127.0.0.1:{port}")).is_ok());
        let everywhere = require(&listener, &format!("0.0.0.0:{port}")).expect_err("it leads everywhere");
        let everywhere = everywhere.to_string();
        assert!(everywhere.contains(&format!("advertise = \"HOST:{port}\"")), "{everywhere}");
    }

    #[test]
    fn others_may_come_meanwhile() {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let mut other = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        other.write_all(b"a greeting of another server").expect("sent");
        let silent = thread::spawn(move || TcpStream::connect(("127.0.0.1", port)).map(drop));
        silent.join().expect("no panic").expect("a connection");
        assert!(require(&listener, &format!("127.0.0.1:{port}")).is_ok());
    }
}
