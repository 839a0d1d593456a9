//! Sequences of processes without repetition, the names of the tree's nodes.

/// All sequences of `length` of the processes 0 to `n` − 1, without repetition, in lexicographic order; the next comes by
/// [`advance`](Sequences::advance), and none is allocated.
pub(crate) struct Sequences {
    n: u8,
    sequence: Vec<u8>,
    has_more: bool,
}

impl Sequences {
    pub(crate) fn new(n: usize, length: usize) -> Self {
        let n = u8::try_from(n).expect("processes are few");
        Self { n, sequence: (0..n).take(length).collect(), has_more: length <= usize::from(n) }
    }

    /// The one it is at, until there is none any more.
    pub(crate) fn current(&self) -> Option<&[u8]> {
        self.has_more.then_some(&self.sequence)
    }

    pub(crate) fn advance(&mut self) {
        // The last place that can grow grows, and all behind it become as small as they can.
        for place in (0..self.sequence.len()).rev() {
            let grown = (self.sequence[place] + 1..self.n).find(|p| !self.sequence[..place].contains(p));
            if let Some(grown) = grown {
                self.sequence[place] = grown;
                for behind in place + 1..self.sequence.len() {
                    let free = (0..self.n).find(|p| !self.sequence[..behind].contains(p));
                    self.sequence[behind] = free.expect("no longer than there are processes");
                }
                return;
            }
        }
        self.has_more = false;
    }
}

/// How many sequences of `length` there are of `n` processes.
pub(crate) fn count(n: usize, length: usize) -> usize {
    (0..length).map(|place| n - place).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sequences_come_once_and_in_order() {
        for (n, length) in [(1, 0), (1, 1), (4, 2), (5, 5), (6, 3)] {
            let mut sequences = Sequences::new(n, length);
            let mut all = Vec::new();
            while let Some(sequence) = sequences.current() {
                all.push(sequence.to_vec());
                sequences.advance();
            }
            assert_eq!(all.len(), count(n, length));
            assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
            assert!(all.iter().all(|s| (1..s.len()).all(|i| !s[..i].contains(&s[i]))));
        }
    }
}
