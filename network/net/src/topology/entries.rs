//! The tables of a file, with where each part of them stands, so that what is wrong can be pointed at.

use std::fmt::Display;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong, and where: bytes from the beginning.
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) what: String,
    /// What to write in its place.
    pub(crate) instead: String,
}

/// One of `[[host]]`, `[[switch]]` and `[[link]]`.
pub(crate) struct Entry<'a> {
    /// Which of them.
    pub(crate) kind: &'static str,
    /// Where it begins.
    pub(crate) at: usize,
    parts: &'a DeTable<'a>,
}

const KINDS: [&str; 3] = ["host", "switch", "link"];

impl<'a> Entry<'a> {
    /// All of them, in the order in which they are written.
    pub(crate) fn all(document: &'a Spanned<DeTable<'a>>) -> Result<Vec<Self>, Wrong> {
        let mut entries = Vec::new();
        for (key, value) in document.get_ref() {
            let wrong = || Wrong {
                at: key.span().start,
                what: format!("{:?} is not known here", key.get_ref()),
                instead: "[[host]], [[switch]] or [[link]]".into(),
            };
            let kind = KINDS.into_iter().find(|kind| kind == key.get_ref()).ok_or_else(wrong)?;
            for entry in value.get_ref().as_array().ok_or_else(wrong)? {
                let parts = entry.get_ref().as_table().ok_or_else(wrong)?;
                entries.push(Self { kind, at: entry.span().start, parts });
            }
        }
        entries.sort_by_key(|entry| entry.at);
        Ok(entries)
    }

    /// Fails if it has other parts.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Wrong> {
        match self.parts.keys().find(|key| !known.contains(&&**key.get_ref())) {
            None => Ok(()),
            Some(key) => Err(Wrong {
                at: key.span().start,
                what: format!("a {} has no {:?}", self.kind, key.get_ref()),
                instead: format!("one of {}", known.join(", ")),
            }),
        }
    }

    /// A part's value, or the values of its list: none, if it is not there. What is wrong with one is what should be instead.
    pub(crate) fn list<T, E: Display>(
        &self,
        name: &str,
        mut parse: impl FnMut(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, Wrong> {
        let Some(value) = self.parts.get(name) else { return Ok(Vec::new()) };
        let values = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        };
        let one = |value: &Spanned<DeValue<'_>>| {
            let text = text(value.get_ref());
            parse(&text).map_err(|instead| Wrong {
                at: value.span().start,
                what: format!("{name} {text:?} is not right"),
                instead: instead.to_string(),
            })
        };
        values.into_iter().map(one).collect()
    }
}

/// A value as it would be written on a command line.
fn text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => format!("(a {})", value.type_str()),
    }
}
