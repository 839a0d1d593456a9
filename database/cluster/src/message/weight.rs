//! How much memory a question takes while it waits, and an answer.

use super::{Answer, Found, Question, Sight};
use fulmar_kv::{Basis, Commit, Expected, Interval, Key, ObjectId, Restructuring};

/// What a cell takes beside its key's bytes, about.
const CELL: u64 = 48;

impl Question {
    /// About how many bytes it takes: a hostile one may have them anywhere.
    pub(crate) fn weight(&self) -> u64 {
        let weight = match self {
            Self::Read { from, at, .. } => key(from) + sight(at),
            Self::Commit(_, asked, _) => commit(asked),
            Self::CommitUnread(_, asked, basis, _) => commit(asked) + on(basis),
            Self::Prepare(prepare) => commit(&prepare.commit) + 2 * prepare.others.len() as u64,
            Self::Open { .. }
            | Self::OpenSnapshot
            | Self::ReopenSnapshot(_)
            | Self::Newest
            | Self::Pick { .. }
            | Self::Exclude(_)
            | Self::Size
            | Self::Decide(..) => 0,
        };
        weight + size_of::<Self>() as u64
    }
}

impl Answer {
    /// About how many bytes it takes, with what it shows.
    pub(crate) fn weight(&self) -> u64 {
        let shown = match self {
            Self::Found(found) | Self::Opened(_, Some(found)) => match found {
                Found::Object(object) => object.size(),
                Found::Piece(piece) => piece.bytes.len(),
            },
            _ => 0,
        };
        (size_of::<Self>() + shown) as u64
    }
}

fn key(key: &[u8]) -> u64 {
    CELL + key.len() as u64
}

fn cells(cells: &[(ObjectId, Key)]) -> u64 {
    cells.iter().map(|(_, cell)| key(cell)).sum()
}

fn sight(sight: &Sight) -> u64 {
    match sight {
        Sight::Open(_) => 0,
        Sight::New(expected) | Sight::Once(expected) => expected.as_ref().map_or(0, what_is_expected),
    }
}

fn what_is_expected(expected: &Expected) -> u64 {
    key(&expected.key) + expected.value.as_ref().map_or(0, |value| value.len() as u64)
}

fn on(basis: &Basis) -> u64 {
    cells(&basis.present) + basis.expected.as_ref().map_or(0, what_is_expected)
}

fn interval(interval: &Interval) -> u64 {
    key(interval.low()) + interval.high().map_or(0, key)
}

fn commit(commit: &Commit) -> u64 {
    let writes = commit
        .writes
        .iter()
        .map(|write| CELL + write.changes.size() as u64 + write.cleared.iter().map(interval).sum::<u64>());
    let restructurings = commit.restructurings.iter().map(restructuring);
    cells(&commit.required) + cells(&commit.touched) + writes.chain(restructurings).sum::<u64>()
}

fn restructuring(restructuring: &Restructuring) -> u64 {
    let own = match restructuring {
        Restructuring::Split { cuts, .. } => cuts.iter().map(|(cut, _)| key(cut)).sum(),
        Restructuring::Relink { links, .. } => links.iter().map(|(link, _)| key(link)).sum(),
        Restructuring::Place { moved, .. } => {
            moved.object.len() as u64 + moved.touched.iter().map(|(cell, _)| key(cell)).sum::<u64>()
        }
        Restructuring::Create { .. }
        | Restructuring::Remove { .. }
        | Restructuring::Join { .. }
        | Restructuring::Grow { .. }
        | Restructuring::Shrink { .. }
        | Restructuring::Collect { .. } => 0,
    };
    CELL + own
}
