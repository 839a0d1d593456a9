//! Directed graphs: tangles of cycles, and a short cycle out of a tangle.

use std::collections::VecDeque;

/// The strongly connected components that hold a cycle (Tarjan, 1972): for each node the number of its component, or
/// none if no cycle passes through it. Edges from a node to itself do not count.
pub(crate) fn tangles<I: Iterator<Item = usize>>(
    nodes: usize,
    successors: impl Fn(usize) -> I,
) -> Vec<Option<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut index = vec![UNSEEN; nodes];
    let mut low = vec![UNSEEN; nodes];
    let mut is_open = vec![false; nodes];
    let mut tangle = vec![None; nodes];
    let (mut seen, mut tangles) = (0, 0);
    let mut open = Vec::new();
    let mut path: Vec<(usize, I)> = Vec::new();
    for root in 0..nodes {
        let mut entered = (index[root] == UNSEEN).then_some(root);
        loop {
            if let Some(node) = entered.take() {
                (index[node], low[node], is_open[node]) = (seen, seen, true);
                seen += 1;
                open.push(node);
                path.push((node, successors(node)));
            }
            let Some((node, rest)) = path.last_mut() else { break };
            let node = *node;
            if let Some(next) = rest.next() {
                if index[next] == UNSEEN {
                    entered = Some(next);
                } else if is_open[next] {
                    low[node] = low[node].min(index[next]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                let start = open.iter().rposition(|&other| other == node).unwrap_or(0);
                let component = open.split_off(start);
                let has_cycle = component.len() > 1;
                for member in component {
                    is_open[member] = false;
                    tangle[member] = has_cycle.then_some(tangles);
                }
                tangles += usize::from(has_cycle);
            }
        }
    }
    tangle
}

/// Breadth-first search, many times over one graph.
pub(crate) struct Paths<E> {
    /// By which search a node was reached last, from where, and by which edge.
    reached: Vec<(u32, usize, Option<E>)>,
    searches: u32,
}

impl<E: Copy> Paths<E> {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { reached: vec![(0, 0, None); nodes], searches: 0 }
    }

    /// The edges of a shortest path between two different nodes, if it has fewer than `limit` edges.
    pub(crate) fn shortest<I: Iterator<Item = (usize, E)>>(
        &mut self,
        from: usize,
        to: usize,
        limit: usize,
        successors: impl Fn(usize) -> I,
    ) -> Option<Vec<E>> {
        self.searches += 1;
        self.reached[from] = (self.searches, from, None);
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((node, length)) = queue.pop_front() {
            if node == to {
                return Some(self.walk_back(to));
            }
            if length + 1 >= limit {
                continue;
            }
            for (next, edge) in successors(node) {
                if self.reached[next].0 != self.searches {
                    self.reached[next] = (self.searches, node, Some(edge));
                    queue.push_back((next, length + 1));
                }
            }
        }
        None
    }

    fn walk_back(&self, to: usize) -> Vec<E> {
        let mut path = Vec::new();
        let mut node = to;
        while let (_, before, Some(edge)) = self.reached[node] {
            path.push(edge);
            node = before;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tangles_are_told_apart() {
        let edges: [&[usize]; 7] = [&[1], &[2], &[0, 3], &[4], &[5, 3], &[], &[6]];
        let found = tangles(7, |node| edges[node].iter().copied());
        assert_eq!(found, [Some(1), Some(1), Some(1), Some(0), Some(0), None, None]);
    }

    #[test]
    fn paths_are_shortest() {
        let edges: [&[usize]; 5] = [&[1, 3], &[2], &[4], &[4], &[0]];
        let mut paths = Paths::new(5);
        let mut path =
            |limit| paths.shortest(0, 4, limit, |node| edges[node].iter().map(|&next| (next, next)));
        assert_eq!(path(9), Some(vec![3, 4]));
        assert_eq!(path(3), Some(vec![3, 4]));
        assert_eq!(path(2), None);
    }
}
