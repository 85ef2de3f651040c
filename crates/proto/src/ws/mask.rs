//! Masks: a client masks its frames, so that no proxy on the way mistakes them for another
//! protocol.

/// Appends masked bytes without their mask, in blocks that stay in registers. Copying first and
/// unmasking afterwards is not faster for small pieces, and up to ten times slower for large ones:
/// some processors copy large ranges slowly from or to an odd address.
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

/// Masks bytes in place, or unmasks them.
#[inline]
pub(super) fn apply(bytes: &mut [u8], [a, b, c, d]: [u8; 4]) {
    let key = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    // Simple enough for the compiler to use wide instructions.
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ key).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.to_ne_bytes()) {
        *byte ^= key;
    }
}

/// Rotates the mask to continue after `count` bytes.
pub(super) fn advance(mask: &mut [u8; 4], count: usize) {
    mask.rotate_left(count % 4);
}

/// A source of masks.
///
/// The sender of a message must not be able to predict its mask, even after it has seen all masks
/// before. So the masks are the numbers 0, 1, 2 and so on, each put through SipHash-2-4 with a
/// secret key. Without the key the results look random, and none of them tells anything about the
/// next. The key is the seed, so only the seed must be random.
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
    // The second block encodes the length of the input: eight bytes.
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
