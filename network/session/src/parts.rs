//! Requests that come in several messages (section 7.3.5).

use fulmar_openflow::error::BadRequest;
use fulmar_openflow::multipart::{MultipartRequest, Question};

/// So many messages may make up one request.
const MESSAGES: usize = 64;

/// The parts of a request that have come.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The number of the request, its parts joined, and how many they are.
    begun: Option<(u32, Question, usize)>,
}

impl Parts {
    /// Another message: the whole request, if it is the last one of it.
    pub(crate) fn push(&mut self, xid: u32, part: MultipartRequest) -> Result<Option<Question>, BadRequest> {
        let MultipartRequest { has_more, question } = part;
        let (question, count) = match self.begun.take() {
            None => (question, 1),
            // What is not continued is forgotten, as if it had not come.
            Some((other, ..)) if other != xid => (question, 1),
            Some((_, _, MESSAGES)) => return Err(BadRequest::TooManyParts),
            Some((_, begun, count)) => (joined(begun, question).ok_or(BadRequest::BadMultipart)?, count + 1),
        };
        if has_more {
            self.begun = Some((xid, question, count));
            return Ok(None);
        }
        Ok(Some(question))
    }
}

/// Two parts of one request: of those that are lists.
fn joined(mut first: Question, second: Question) -> Option<Question> {
    match (&mut first, second) {
        (Question::TableFeatures(list), Question::TableFeatures(more)) => list.extend(more),
        (Question::Monitor(list), Question::Monitor(more)) => list.extend(more),
        _ => return None,
    }
    Some(first)
}
