//! Differential tests: all readers of containers agree, SIMD in each variant and byte by byte.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{byte_reader, simd, unchecked};

/// Small, so that the tests also reach the depth limit.
const DEPTH: usize = 8;

/// Sampling of the cases: 1 runs all. Miri (`scripts/sanitize`) is a thousand times slower, so it
/// runs every 41st turn of a loop, and every 16th text of those.
pub(super) const EVERY: usize = if cfg!(miri) { 41 } else { 1 };
const CHECKED: usize = if cfg!(miri) { 16 } else { 1 };

fn check(bytes: &[u8]) {
    check_within(bytes, DEPTH);
}

fn check_within(bytes: &[u8], depth: usize) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);

    let is_next = CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(CHECKED);
    if !is_next || !matches!(bytes.first(), Some(b'{' | b'[')) {
        return;
    }
    let expect = byte_reader::container_by_bytes(bytes, depth).ok().map(|(end, _)| end);
    for read in [simd::container, unchecked::usual_container, unchecked::plain_container] {
        // The SIMD readers may refuse a container because of invalid bytes after its end.
        let found = read(bytes, 0, depth).or_else(|| read(&bytes[..expect?], 0, depth));
        assert_eq!(found.map(|(end, _)| end), expect, "{}", bytes.escape_ascii());
        if let Some((end, is_high)) = found {
            assert!(is_high || bytes[..end].is_ascii(), "{}", bytes.escape_ascii());
        }
    }
}

/// Dense texts with nearly all of the grammar.
fn texts() -> Vec<String> {
    let record = r#"{"code":10,"kind":"warning","range":{"end":{"column":12,"line":7},"start":{}},"related":[{"path":"src/part_1.rs","score":7.25},[],[true,null,-0,false,-12.5e+3,0.5,1E5]]}"#;
    let strings = r#"["\\","\"","\u00e9é\ud83d\ude00","","a\\\"b,:{}[]",{"\n":"\t","é":[""]}]"#;
    let spaced =
        "{ \"a\" : [ 1 , 2.5 ,\t{ } , [ ] ] ,\r\n \"b\" : { \"c\" : true , \"d\": \"e\" } }";
    let numbers = "[0,-0,10,1234567890123456789012345678901234567890123456789012345678901234567890,\
                   -1.0,0.0,1e1,1E+1,1.5e-10,100,9]";
    let all = format!("[{record},{strings},{spaced},{numbers}]");
    [record, strings, spaced, numbers, &all].map(String::from).to_vec()
}

#[test]
fn readers_agree_on_every_byte_in_every_place() {
    for text in texts() {
        for place in (0..text.len()).step_by(EVERY) {
            for byte in (0..=255u8).step_by(EVERY) {
                let mut changed = text.as_bytes().to_vec();
                changed[place] = byte;
                check(&changed);
            }
        }
    }
}

#[test]
fn readers_agree_on_texts_with_a_byte_missing_or_doubled() {
    let tokens = b"{}[]:,\"\\ 0-.et";
    for text in texts() {
        for place in (0..text.len()).step_by(EVERY) {
            let (before, behind) = text.as_bytes().split_at(place);
            check(before);
            check(&[before, &behind[1..]].concat());
            for &token in tokens {
                check(&[before, &[token], behind].concat());
                check(&[before, &[token, token], behind].concat());
            }
        }
    }
}

#[test]
fn readers_agree_on_texts_at_every_block_offset() {
    for text in texts() {
        for before in (0..70).chain([100, 127, 128, 129]).step_by(EVERY) {
            let padding = "x".repeat(before);
            let spaces = " ".repeat(before);
            let digits = "1".repeat(before + 1);
            for around in [
                format!("[\"{padding}\",{text}]"),
                format!("[{spaces}{text}{spaces}]"),
                format!("[{digits},{text},{digits}]"),
                format!("[-{digits}.5,{text},{digits}e1]"),
                format!("{{\"{padding}\":{text},\"{padding}\":{digits}.{digits}}}"),
            ] {
                check(around.as_bytes());
                check(&[around.as_bytes(), b",\"more\":[}"].concat());
                // One wrong byte at the place where two blocks meet.
                for wrong in [":", ",", "}", "\"", "0", "\\", "\n"] {
                    for place in [63, 64, 128] {
                        if let Some((before, behind)) = around.as_bytes().split_at_checked(place) {
                            check(&[before, wrong.as_bytes(), behind].concat());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn readers_agree_on_strings_with_escapes_where_blocks_meet() {
    let marks = ["", "\\\"", "\\\\", "\\n", "\",\"", "\"\n,\"", "\t", "é"];
    let [long, lines] = ["x", "\n"].map(|byte| byte.repeat(70));
    for before in (55..66).step_by(EVERY) {
        for between in [0, 1, 60, 61, 62, 63, 64] {
            let (before, between) = ("x".repeat(before), "x".repeat(between));
            for first in marks {
                for second in marks {
                    let text = format!("[\"{before}{first}{between}{second}");
                    check(format!("{text}\"]").as_bytes());
                    check(format!("{text}{long}\"]").as_bytes());
                    check(format!("{text}\"{lines}]").as_bytes());
                }
            }
        }
    }
}

#[test]
fn readers_agree_on_every_mix_of_a_few_tokens() {
    // All arrays of up to five of these tokens, alone and around the end of a block.
    let tokens = ["{", "}", "[", "]", ":", ",", "\"a\"", "1"];
    for length in 0..=5u32 {
        for mut number in (0..tokens.len().pow(length)).step_by(EVERY) {
            let mut text = String::from("[");
            for _ in 0..length {
                text.push_str(tokens[number % tokens.len()]);
                number /= tokens.len();
            }
            text.push(']');
            check(text.as_bytes());
            if length <= 3 {
                check(text.replace(',', " , ").replace(':', "\t:\n").as_bytes());
                for before in 52..63 {
                    check(format!("[{}{text}]", " ".repeat(before)).as_bytes());
                }
            }
        }
    }
}

#[test]
fn readers_agree_on_depth() {
    for depth in [0, 1, 2, 7, 62, 63] {
        for levels in (1..70).step_by(EVERY) {
            let (opens, closes) = ("[".repeat(levels), "]".repeat(levels));
            let objects = "{\"a\":".repeat(levels);
            let braces = "}".repeat(levels);
            for text in [
                format!("{opens}{closes}"),
                format!("{opens}[],[],[],[]{closes}"),
                format!("{objects}1{braces}"),
                format!("[{objects}[]{braces},{opens}{closes}]{opens}"),
                // Containers that close in the block before the depth limit is reached.
                format!("[[],[[]],{opens}{closes}]"),
            ] {
                check_within(text.as_bytes(), depth);
            }
        }
    }
    // The SIMD readers return `None` for a container that is too deep for them.
    let deep = ["[".repeat(64), "]".repeat(64)].concat();
    assert_eq!(simd::container(deep.as_bytes(), 0, 64), None);
    assert_eq!(byte_reader::container_by_bytes(deep.as_bytes(), 64), Ok((128, false)));
}
