//! Queue that allocates only for its second element. Over HTTP each request has queues of its own, of one element.

use std::collections::VecDeque;

pub(super) struct Fifo<T> {
    /// `None` if the queue is empty.
    first: Option<T>,
    behind: VecDeque<T>,
}

impl<T> Fifo<T> {
    #[inline]
    pub(super) fn push(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.behind.push_back(element),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let first = self.first.take()?;
        self.first = self.behind.pop_front();
        Some(first)
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.behind.len()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.behind.shrink_to_fit();
    }
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo { first: None, behind: VecDeque::new() }
    }
}
