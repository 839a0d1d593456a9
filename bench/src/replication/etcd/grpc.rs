//! As much of gRPC as it takes to put values: a message of two fields in an HTTP/2 request.
//!
//! HTTP/2 is the crate `h2`'s, on which Rust's larger gRPC clients stand, too.

use crate::fault::{Fault, Wrong};
use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;

/// Tags of the fields of `PutRequest` (etcd's `rpc.proto`): bytes, preceded by their length.
const KEY: u8 = 1 << 3 | 2;
const VALUE: u8 = 2 << 3 | 2;

/// A connection, which its clones share.
#[derive(Clone)]
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    /// Of the method that puts.
    url: http::Uri,
}

impl Connection {
    /// Connects to what serves on this port of loopback. The rest is done by a task that ends with the connection.
    pub(super) async fn open(port: u16) -> Result<Self, Fault> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        let (requests, connection) = handshake(socket).await?;
        // What ends it is told to whoever waits for an answer.
        tokio::spawn(async { drop(connection.await) });
        Ok(Self { requests, url: format!("http://127.0.0.1:{port}/etcdserverpb.KV/Put").parse()? })
    }

    /// Puts a value under a key, both shorter than 128 bytes.
    pub(super) async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let request = Request::post(self.url.clone())
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        std::future::poll_fn(|context| self.requests.poll_ready(context)).await?;
        let (response, mut body) = self.requests.send_request(request, false)?;
        body.send_data(put_request(key, value)?, true)?;
        let (head, mut answer) = response.await?.into_parts();
        while let Some(part) = answer.data().await {
            let length = part?.len();
            answer.flow_control().release_capacity(length)?;
        }
        let end = answer.trailers().await?;
        // What fails at once has no trailers.
        require_success(end.as_ref().unwrap_or(&head.headers))
    }
}

/// A message of gRPC: not compressed, its length, and its fields.
fn put_request(key: &[u8], value: &[u8]) -> Result<Bytes, Fault> {
    let mut fields = Vec::with_capacity(4 + key.len() + value.len());
    for (tag, bytes) in [(KEY, key), (VALUE, value)] {
        // Up to 127 a varint is one byte.
        fields.extend([tag, i8::try_from(bytes.len())?.cast_unsigned()]);
        fields.extend(bytes);
    }
    let mut message = vec![0];
    message.extend(u32::try_from(fields.len())?.to_be_bytes());
    message.extend(fields);
    Ok(message.into())
}

fn require_success(headers: &HeaderMap) -> Result<(), Fault> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        status => {
            let why = text("grpc-message").unwrap_or("no reason given");
            Err(Wrong(format!("gRPC status {}: {why}", status.unwrap_or("unknown"))).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_two_fields_behind_their_length() {
        let request = put_request(b"key", b"value").expect("short");
        assert_eq!(&request[..], b"\0\0\0\0\x0c\x0a\x03key\x12\x05value");
        assert!(put_request(b"key", &[0; 128]).is_err());
    }

    #[test]
    fn what_fails_says_why() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            };
            pairs.iter().map(pair).collect::<HeaderMap>()
        };
        assert!(require_success(&headers(&[("grpc-status", "0")])).is_ok());
        let failed = require_success(&headers(&[("grpc-status", "14"), ("grpc-message", "no leader")]));
        assert_eq!(failed.map_err(|why| why.to_string()), Err("gRPC status 14: no leader".into()));
        assert!(require_success(&HeaderMap::new()).is_err());
    }
}
