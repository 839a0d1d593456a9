//! Where one JSON object ends and the next begins, in a stream (RFC 7047, section 4).

use crate::Error;
use serde_json::Value;

/// A larger message is refused. The largest that clients send name all ports of a bridge: some 60 bytes for each.
pub(crate) const LARGEST: usize = 8 << 20;
/// Nor may one take so much memory when it is parsed, of which an object, and any other value, takes so much.
const HEAVIEST: usize = 64 << 20;
pub(crate) const OBJECT: usize = 640;
const VALUE: usize = 64;
/// Room for so many bytes is kept for messages to come.
const KEPT: usize = 64 << 10;

/// What has come of a message, and how far it has been looked through: each byte once.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    /// Begins with that of a message.
    bytes: Vec<u8>,
    /// So many have been looked at.
    seen: usize,
    /// How much memory that takes when it is parsed.
    weight: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Framing {
    /// How many bytes have come of messages that were not taken.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it has come.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, Error> {
        if self.depth == 0 {
            let blank = self.bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.bytes.drain(..blank);
        }
        while let Some(byte) = self.bytes.get(self.seen) {
            self.seen += 1;
            if self.seen > LARGEST {
                return Err(Error::syntax(format!("a message of more than {LARGEST} bytes")));
            }
            if self.depth == 0 && *byte != b'{' {
                return Err(Error::syntax("this is no JSON object"));
            }
            self.look(*byte);
            if self.weight > HEAVIEST {
                return Err(Error::syntax("a message of too many values"));
            }
            if self.depth == 0 {
                return self.take().map(Some);
            }
        }
        Ok(None)
    }

    fn look(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' if !self.in_string => {
                self.depth += 1;
                self.weight += OBJECT;
            }
            b'[' if !self.in_string => {
                self.depth += 1;
                self.weight += VALUE;
            }
            b',' if !self.in_string => self.weight += VALUE,
            b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// All that has been looked at. Whether it makes sense is the parser's to say.
    fn take(&mut self) -> Result<Value, Error> {
        let message = serde_json::from_slice(&self.bytes[..self.seen]);
        self.bytes.drain(..self.seen);
        // The next is rarely as large.
        self.bytes.shrink_to(KEPT);
        *self = Self { bytes: std::mem::take(&mut self.bytes), ..Self::default() };
        message.map_err(|why| Error::syntax(format!("this is no JSON: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_found_however_they_are_cut() {
        let stream = "{\"a\": [1, \"}\\\"{\"]} {}\n\n{\"b\\\\\": {\"c\": \"é[\"}}".as_bytes();
        let expected = [json!({"a": [1, "}\"{"]}), json!({}), json!({"b\\": {"c": "é["}})];
        for size in 1..=stream.len() {
            let mut framing = Framing::default();
            let mut found = Vec::new();
            for part in stream.chunks(size) {
                framing.push(part);
                while let Some(message) = framing.next().expect("it is JSON") {
                    found.push(message);
                }
            }
            assert_eq!(found, expected, "in parts of {size}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for garbage in ["GET / HTTP/1.1", "1", "}", "{]", "{\"a\"}", "\u{1}", &"[".repeat(1000)] {
            let mut framing = Framing::default();
            framing.push(garbage.as_bytes());
            framing.push(&b"]".repeat(1000));
            assert!(framing.next().is_err(), "{garbage}");
        }
    }

    #[test]
    fn a_message_has_a_bounded_number_of_values() {
        for (value, most) in [("{},", 200_000), ("0,", 2_200_000)] {
            let mut framing = Framing::default();
            framing.push(b"{\"a\": [");
            framing.push(value.repeat(most).as_bytes());
            let why = framing.next().expect_err("too many");
            assert!(why.details.contains("too many values"), "{why}");
        }
    }

    #[test]
    fn a_message_is_bounded() {
        let mut framing = Framing::default();
        framing.push(b"{\"a\": \"");
        for _ in 0..LARGEST / 1024 {
            assert_eq!(framing.next(), Ok(None));
            framing.push(&[b'x'; 1024]);
        }
        assert!(framing.next().expect_err("too large").details.contains("more than"));
    }
}
