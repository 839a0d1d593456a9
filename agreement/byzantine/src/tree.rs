//! The trees IT and RT of a process, as one: only what is still asked about is in it.

use crate::Sequence;

/// A node: σ's last process, what is held of it, and its children, of which each is asked about by another process.
///
/// RT(σ) is what the first resolved node on the way from the root to σ was resolved to: to resolve a node is to colour all nodes below
/// it (section 2.1), so nothing is written there.
#[derive(Clone, Debug)]
pub(crate) struct Node<V> {
    /// The last process of the sequence; of the root, none is meant.
    pub(crate) process: u8,
    /// IT(σ), where `None` is ⊥.
    pub(crate) value: Option<V>,
    /// What was put to RT(σ).
    pub(crate) resolved: Option<Option<V>>,
    /// Whether the branch is closed.
    pub(crate) closed: bool,
    /// By process; none at the last level that was heard of, and none of a branch that is closed.
    pub(crate) children: Box<[Self]>,
}

impl<V: Copy> Node<V> {
    pub(crate) fn new(process: u8, value: Option<V>) -> Self {
        Self { process, value, resolved: None, closed: false, children: Box::default() }
    }

    /// IT(σvu) of the v-th and the u-th child of σ, and IT(σv) where both are the same: what the u-th says that the v-th said.
    /// All children of σ have theirs: σ is unresolved, and was heard of two rounds ago.
    pub(crate) fn heard(&self, v: usize, u: usize) -> Option<V> {
        match u.cmp(&v) {
            std::cmp::Ordering::Less => self.children[v].children[u].value,
            std::cmp::Ordering::Equal => self.children[v].value,
            std::cmp::Ordering::Greater => self.children[v].children[u - 1].value,
        }
    }

    /// Calls `visit` for all nodes `depth` levels below that have no value in RT.
    pub(crate) fn unresolved(
        &mut self,
        sequence: Sequence,
        depth: usize,
        visit: &mut impl FnMut(Sequence, &mut Self),
    ) {
        if self.resolved.is_some() {
            return;
        }
        if depth == 0 {
            return visit(sequence, self);
        }
        for child in &mut self.children {
            child.unresolved(sequence.then(child.process), depth - 1, visit);
        }
    }

    /// Calls `visit` for all nodes `depth` levels below whose branch is not closed.
    pub(crate) fn open(&self, sequence: Sequence, depth: usize, visit: &mut impl FnMut(Sequence, &Self)) {
        if self.closed {
            return;
        }
        if depth == 0 {
            return visit(sequence, self);
        }
        for child in &self.children {
            child.open(sequence.then(child.process), depth - 1, visit);
        }
    }

    /// RT(σ) of a σ below, whose next processes are `rest`.
    pub(crate) fn resolved(&self, rest: &[u8]) -> Option<Option<V>> {
        if self.resolved.is_some() {
            return self.resolved;
        }
        let (next, rest) = rest.split_first()?;
        let child = self.children.binary_search_by_key(next, |child| child.process).ok()?;
        self.children[child].resolved(rest)
    }

    /// Whether each branch has a node with a value in RT.
    pub(crate) fn has_frontier(&self) -> bool {
        self.resolved.is_some() || (!self.children.is_empty() && self.children.iter().all(Self::has_frontier))
    }

    /// Whether all branches are closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed || (!self.children.is_empty() && self.children.iter().all(Self::is_closed))
    }

    /// Forgets what is below closed nodes.
    pub(crate) fn prune(&mut self) {
        if self.closed {
            self.children = Box::default();
        }
        self.children.iter_mut().for_each(Self::prune);
    }

    /// How many nodes there are.
    pub(crate) fn size(&self) -> usize {
        1 + self.children.iter().map(Self::size).sum::<usize>()
    }
}
