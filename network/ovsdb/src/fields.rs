//! JSON objects whose members are known: what is missing, unknown or of another type is named.

use crate::Error;
use serde_json::{Map, Value};

/// The members of an object.
pub(crate) struct Fields<'j> {
    /// What the object is, for errors.
    what: &'j str,
    members: &'j Map<String, Value>,
}

impl<'j> Fields<'j> {
    /// Those of an object that has no others than the `known`.
    pub(crate) fn of(json: &'j Value, what: &'j str, known: &[&str]) -> Result<Self, Error> {
        let members = json.as_object().ok_or_else(|| wrong(what, "an object", json))?;
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(Error::syntax(format!("{what}: no member `{name}` is expected"))),
            None => Ok(Self { what, members }),
        }
    }

    pub(crate) fn optional(&self, name: &str) -> Option<&'j Value> {
        self.members.get(name)
    }

    pub(crate) fn required(&self, name: &str) -> Result<&'j Value, Error> {
        self.optional(name)
            .ok_or_else(|| Error::syntax(format!("{}: the member `{name}` is missing", self.what)))
    }

    pub(crate) fn string(&self, name: &str) -> Result<&'j str, Error> {
        let value = self.required(name)?;
        value.as_str().ok_or_else(|| self.wrong(name, "a string", value))
    }

    pub(crate) fn array(&self, name: &str) -> Result<&'j [Value], Error> {
        let value = self.required(name)?;
        array(value).ok_or_else(|| self.wrong(name, "an array", value))
    }

    pub(crate) fn optional_array(&self, name: &str) -> Result<Option<&'j [Value]>, Error> {
        self.optional(name).map(|_| self.array(name)).transpose()
    }

    pub(crate) fn object(&self, name: &str) -> Result<&'j Map<String, Value>, Error> {
        let value = self.required(name)?;
        value.as_object().ok_or_else(|| self.wrong(name, "an object", value))
    }

    /// A truth, or what holds if nothing is said.
    pub(crate) fn boolean(&self, name: &str, default: bool) -> Result<bool, Error> {
        self.optional(name).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| self.wrong(name, "true or false", value))
        })
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> Error {
        wrong(&format!("{}, `{name}`", self.what), expected, found)
    }
}

fn array(value: &Value) -> Option<&[Value]> {
    value.as_array().map(Vec::as_slice)
}

/// The two elements of an array of two.
pub(crate) fn pair(json: &Value) -> Option<(&Value, &Value)> {
    match array(json)? {
        [first, second] => Some((first, second)),
        _ => None,
    }
}

/// What is there instead of what was expected.
pub(crate) fn wrong(what: &str, expected: &str, found: &Value) -> Error {
    /// As much of a value as helps to find it.
    const SHOWN: usize = 60;
    let mut shown: String = found.to_string().chars().take(SHOWN + 1).collect();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(end);
        shown.push('…');
    }
    Error::syntax(format!("{what}: expected {expected}, found {shown}"))
}

/// Whether it is an `<id>` (RFC 7047, section 3.1).
pub(crate) fn is_id(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_ascii_digit())
}
