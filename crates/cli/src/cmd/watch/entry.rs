//! Index entries: the columns of a record that filters, sorting and pairs need, 48 bytes each.
//!
//! Everything else of a record stays in the file, and is read again when a row is shown.

use duet_rpc_trace::{Dir, Kind};

/// No partner, or no method.
pub(super) const NONE: u32 = u32::MAX;

/// Entries per block. Blocks are never moved, so the index grows without copying and without spare room.
const BLOCK: usize = 8192;

#[derive(Clone, Debug)]
pub(super) struct IndexEntry {
    /// Position of the line in its file.
    pub(super) offset: u64,
    /// Time of the last byte, in µs.
    pub(super) at: u64,
    pub(super) seq: u64,
    /// Length of the line, without its line end.
    pub(super) length: u32,
    /// Size of the body. A size over 4 GB counts as 4 GB.
    pub(super) size: u32,
    /// A request: the number of its answer. An answer or a cancellation: the number of its request.
    pub(super) partner: u32,
    /// Number of the method in [`Methods`].
    pub(super) method: u32,
    /// Number of the file in a rotated trace.
    pub(super) part: u16,
    pub(super) kind: Kind,
    pub(super) dir: Dir,
    pub(super) fate: Fate,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not a request.
    #[default]
    None,
    /// No answer so far.
    Open,
    Answered,
    Failed,
    /// Cancelled, whether it was answered or not.
    Cancelled,
}

impl Fate {
    /// The fates of requests.
    pub(super) const ALL: [Fate; 4] = [Fate::Open, Fate::Answered, Fate::Failed, Fate::Cancelled];

    /// The name on the page. An open request of a session that is over never gets its answer.
    pub(super) fn name(self, is_running: bool) -> Option<&'static str> {
        match self {
            Fate::None => None,
            Fate::Open if is_running => Some("pending"),
            Fate::Open => Some("unanswered"),
            Fate::Answered => Some("ok"),
            Fate::Failed => Some("error"),
            Fate::Cancelled => Some("cancelled"),
        }
    }
}

/// All entries of a session, by number.
#[derive(Debug, Default)]
pub(super) struct Entries {
    blocks: Vec<Vec<IndexEntry>>,
    count: u32,
}

impl Entries {
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Adds an entry and returns its number.
    pub(super) fn push(&mut self, entry: IndexEntry) -> u32 {
        if (self.count as usize).is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(entry);
        }
        self.count += 1;
        self.count - 1
    }

    pub(super) fn get(&self, number: u32) -> Option<&IndexEntry> {
        self.blocks.get(number as usize / BLOCK)?.get(number as usize % BLOCK)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut IndexEntry> {
        self.blocks.get_mut(number as usize / BLOCK)?.get_mut(number as usize % BLOCK)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &IndexEntry> {
        self.blocks.iter().flatten()
    }

    /// The number of the entry with this `seq`. A trace counts without gaps, so the first guess is
    /// right unless the file was put together or edited.
    pub(super) fn find_seq(&self, seq: u64) -> Option<u32> {
        let first = self.get(0)?.seq;
        let guess = u32::try_from(seq.checked_sub(first)?).ok()?;
        if self.get(guess).is_some_and(|entry| entry.seq == seq) {
            return Some(guess);
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle)?.seq.cmp(&seq) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}
