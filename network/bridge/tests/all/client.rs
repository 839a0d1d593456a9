//! The other side of an OpenFlow connection.

use fulmar_openflow::error::ErrorMessage;
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::{Body, Decoder, Hello, Message};
use std::io::{Read, Write};

pub(crate) struct Client<S> {
    stream: S,
    decoder: Decoder,
    /// The number of the last request.
    xid: u32,
}

impl<S: Read + Write> Client<S> {
    /// Says hello, and hears it.
    pub(crate) fn greet(stream: S) -> Self {
        let mut client = Self { stream, decoder: Decoder::default(), xid: 0 };
        client.send(Body::Hello(Hello::new()));
        assert!(matches!(client.hear().body, Body::Hello(_)));
        client
    }

    /// The connection itself.
    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    pub(crate) fn send(&mut self, body: Body) -> u32 {
        self.xid += 1;
        let mut bytes = Vec::new();
        Message { xid: self.xid, body }.encode(&mut bytes).expect("it is short");
        self.say(&bytes);
        self.xid
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it is heard");
    }

    /// The next message.
    pub(crate) fn hear(&mut self) -> Message {
        let mut bytes = [0; 65536];
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("its length can be") {
                let message = frame.decode().expect("it can be read");
                let Body::EchoRequest(data) = message.body else { return message };
                self.send(Body::EchoReply(data));
                continue;
            }
            let length = self.stream.read(&mut bytes).expect("it speaks");
            assert!(length > 0, "the connection has ended");
            self.decoder.push(&bytes[..length]);
        }
    }

    /// What is said until a barrier has been answered.
    pub(crate) fn settle(&mut self) -> Vec<Message> {
        let barrier = self.send(Body::BarrierRequest);
        let mut heard = Vec::new();
        loop {
            let message = self.hear();
            if message == (Message { xid: barrier, body: Body::BarrierReply }) {
                return heard;
            }
            heard.push(message);
        }
    }

    /// What a request is answered.
    pub(crate) fn ask(&mut self, body: Body) -> Vec<Body> {
        let asked = self.send(body);
        let heard = self.settle().into_iter();
        heard.filter(|message| message.xid == asked).map(|message| message.body).collect()
    }

    /// Adds a flow, which is in force then.
    pub(crate) fn add_flow(&mut self, flow: &str) {
        let flow: FlowMod = flow.parse().expect("it can be read");
        assert_eq!(self.ask(Body::FlowMod(flow)), []);
    }

    /// The error with which these bytes are answered.
    pub(crate) fn refusal(&mut self, bytes: &[u8]) -> Option<ErrorMessage> {
        self.say(bytes);
        self.settle().into_iter().find_map(|message| match message.body {
            Body::Error(error) => Some(error),
            _ => None,
        })
    }
}
