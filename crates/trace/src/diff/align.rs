//! Puts the exchanges of two traces side by side.

use std::collections::HashMap;

use super::index::Exchange;

/// Two exchanges that belong together, or one that has no counterpart.
pub(super) type Pair<'a> = (Option<&'a Exchange>, Option<&'a Exchange>);

/// Exchanges that are searched for the next common method. Traces that differ for longer than this
/// are reported as different up to the end of the window.
const WINDOW: usize = 1_000;

/// Aligns in order: where the methods differ, the nearest common one is the next pair.
pub(super) fn ordered<'a>(left: &[&'a Exchange], right: &[&'a Exchange]) -> Vec<Pair<'a>> {
    let (mut pairs, mut i, mut j) = (Vec::new(), 0, 0);
    while i < left.len() && j < right.len() {
        let (skip_left, skip_right) = nearest(&left[i..], &right[j..]);
        pairs.extend(left[i..i + skip_left].iter().map(|it| (Some(*it), None)));
        pairs.extend(right[j..j + skip_right].iter().map(|it| (None, Some(*it))));
        (i, j) = (i + skip_left, j + skip_right);
        if i < left.len() && j < right.len() && left[i].method == right[j].method {
            pairs.push((Some(left[i]), Some(right[j])));
            (i, j) = (i + 1, j + 1);
        }
    }
    pairs.extend(left[i..].iter().map(|it| (Some(*it), None)));
    pairs.extend(right[j..].iter().map(|it| (None, Some(*it))));
    pairs
}

/// The fewest exchanges to skip on both sides, so that the next ones have the same method.
fn nearest(left: &[&Exchange], right: &[&Exchange]) -> (usize, usize) {
    let (left, right) = (&left[..left.len().min(WINDOW)], &right[..right.len().min(WINDOW)]);
    for distance in 0..left.len() + right.len() {
        let from = distance.saturating_sub(right.len().saturating_sub(1));
        for skip_left in from..=distance.min(left.len().saturating_sub(1)) {
            let skip_right = distance - skip_left;
            let is_pair = |(left, right): (&&Exchange, &&Exchange)| left.method == right.method;
            if left.get(skip_left).zip(right.get(skip_right)).is_some_and(is_pair) {
                return (skip_left, skip_right);
            }
        }
    }
    (left.len(), right.len())
}

/// Aligns without regard to order: equal values first, then the same method.
pub(super) fn unordered<'a>(left: &[&'a Exchange], right: &[&'a Exchange]) -> Vec<Pair<'a>> {
    let mut taken = vec![false; right.len()];
    let mut partner: Vec<Option<usize>> = vec![None; left.len()];
    for is_exact in [true, false] {
        let key = |it: &Exchange| (it.method.clone(), if is_exact { it.hash } else { 0 });
        let mut free: HashMap<_, Vec<usize>> = HashMap::new();
        for at in (0..right.len()).rev().filter(|at| !taken[*at]) {
            free.entry(key(right[at])).or_default().push(at);
        }
        for (at, exchange) in left.iter().enumerate() {
            if partner[at].is_none() {
                partner[at] = free.get_mut(&key(exchange)).and_then(Vec::pop);
                if let Some(other) = partner[at] {
                    taken[other] = true;
                }
            }
        }
    }
    let pairs = left.iter().zip(&partner);
    let pairs = pairs.map(|(it, other)| (Some(*it), other.map(|at| right[at])));
    let rest = right.iter().zip(&taken).filter(|(_, taken)| !**taken);
    pairs.chain(rest.map(|(it, _)| (None, Some(*it)))).collect()
}
