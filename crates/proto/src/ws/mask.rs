//! Masks: what a client hides its frames with, so that no proxy on the way takes them for
//! something else.

/// Appends what was masked, in blocks that stay in registers. To copy it first and take the mask away
/// behind that is no faster with small pieces, and with large ones up to ten times as slow: what some
/// processors do when they are asked to copy much from or to an odd address takes them that long.
pub(super) fn append_unmasked(message: &mut Vec<u8>, masked: &[u8], mask: [u8; 4]) {
    message.reserve(masked.len());
    let (blocks, rest) = masked.as_chunks::<64>();
    for block in blocks {
        let mut clear = *block;
        apply(&mut clear, mask);
        message.extend_from_slice(&clear);
    }
    let start = message.len();
    message.extend_from_slice(rest);
    apply(&mut message[start..], mask);
}

/// Masks bytes where they stand, or takes the mask away again.
#[inline]
pub(super) fn apply(bytes: &mut [u8], [a, b, c, d]: [u8; 4]) {
    let key = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    // So plain that the compiler makes wide instructions of it.
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ key).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.to_ne_bytes()) {
        *byte ^= key;
    }
}

/// The mask as it goes on behind so many bytes.
pub(super) fn advance(mask: &mut [u8; 4], count: usize) {
    mask.rotate_left(count % 4);
}

/// A source of masks.
///
/// A mask has to be one that whoever chose the message could not foresee, also who has seen all
/// masks before it. So they are the numbers 0, 1, 2 and so on, each put through SipHash-2-4 with
/// a key that is secret: without the key its results cannot be told from random numbers, and none of
/// them says anything of the next. The key is the seed, so the seed has to be random; nothing else
/// does.
pub(super) struct Masks {
    key: [u64; 2],
    count: u64,
}

impl Masks {
    pub(super) fn new(seed: u128) -> Self {
        Masks { key: [seed as u64, (seed >> 64) as u64], count: 0 }
    }

    pub(super) fn next(&mut self) -> [u8; 4] {
        let word = siphash(self.key, self.count);
        self.count = self.count.wrapping_add(1);
        (word as u32).to_le_bytes()
    }
}

/// SipHash-2-4 of one word.
fn siphash([low, high]: [u64; 2], word: u64) -> u64 {
    let mut state = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    // The second block says that the input had eight bytes.
    for block in [word, 8 << 56] {
        state[3] ^= block;
        sip_round(&mut state);
        sip_round(&mut state);
        state[0] ^= block;
    }
    state[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut state);
    }
    state.into_iter().fold(0, |all, word| all ^ word)
}

fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}
