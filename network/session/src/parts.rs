//! Requests that come in several messages (section 7.3.5).

use crate::share::Share;
use fulmar_openflow::error::BadRequest;
use fulmar_openflow::multipart::{MultipartRequest, RequestBody};

/// So many messages may make up one request.
const MESSAGES: usize = 64;

/// The parts of a request that have come.
#[derive(Debug)]
pub(crate) struct Parts {
    begun: Option<Begun>,
    share: Share,
}

/// A request of which more is to come.
#[derive(Debug)]
struct Begun {
    xid: u32,
    /// Its parts, joined: so many, of so many bytes.
    request: RequestBody,
    count: usize,
    bytes: usize,
}

impl Parts {
    pub(crate) const fn new(share: Share) -> Self {
        Self { begun: None, share }
    }

    /// Another message, of so many bytes: the whole request, if it is the last one of it.
    pub(crate) fn push(
        &mut self,
        xid: u32,
        part: MultipartRequest,
        length: usize,
    ) -> Result<Option<RequestBody>, BadRequest> {
        let MultipartRequest { has_more, body: request } = part;
        // What is not continued is forgotten, as if it had not come.
        let begun = self.begun.take().filter(|begun| begun.xid == xid);
        let (count, bytes) = begun.as_ref().map_or((0, 0), |begun| (begun.count, begun.bytes));
        let (count, bytes) = (count + 1, bytes + length);
        if count > MESSAGES || !self.share.keep(if has_more { bytes } else { 0 }) {
            self.share.give_back();
            return Err(BadRequest::TooManyParts);
        }
        let joined = match begun {
            None => Some(request),
            Some(begun) => joined(begun.request, request),
        };
        let Some(request) = joined else {
            self.share.give_back();
            return Err(BadRequest::BadMultipart);
        };
        if has_more {
            self.begun = Some(Begun { xid, request, count, bytes });
            return Ok(None);
        }
        Ok(Some(request))
    }
}

/// Two parts of one request: of those that are lists.
fn joined(mut first: RequestBody, second: RequestBody) -> Option<RequestBody> {
    match (&mut first, second) {
        (RequestBody::TableFeatures(list), RequestBody::TableFeatures(more)) => list.extend(more),
        (RequestBody::Monitor(list), RequestBody::Monitor(more)) => list.extend(more),
        _ => return None,
    }
    Some(first)
}
