//! The other side of a session, on a stream that blocks.

use fulmar_openflow::{Body, Decoder, Hello, Message, Version};
use std::io::{Read, Write};

pub(crate) struct Peer<S> {
    pub(crate) stream: S,
    decoder: Decoder,
}

impl<S: Read + Write> Peer<S> {
    /// Says hello, and hears it.
    pub(crate) fn greet(stream: S) -> Self {
        let mut peer = Self { stream, decoder: Decoder::default() };
        peer.say(1, Body::Hello(Hello::new()));
        assert_eq!(peer.hear(), Some((0, Body::Hello(Hello::of(&Version::ALL)))));
        peer
    }

    pub(crate) fn say(&mut self, xid: u32, body: Body) {
        let mut bytes = Vec::new();
        Message { xid, body }.encode(&mut bytes).expect("it fits");
        self.stream.write_all(&bytes).expect("it is sent");
    }

    /// The next message; nothing when the connection is closed.
    pub(crate) fn hear(&mut self) -> Option<(u32, Body)> {
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("messages") {
                let message = frame.decode().expect("they are right");
                return Some((message.xid, message.body));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.decoder.push(&bytes[..length]),
            }
        }
    }

    pub(crate) fn is_answered(&mut self) -> bool {
        self.say(77, Body::BarrierRequest);
        while let Some(heard) = self.hear() {
            if heard == (77, Body::BarrierReply) {
                return true;
            }
        }
        false
    }
}
