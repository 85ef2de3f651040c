//! Grammar of JSON texts, on a corpus of difficult ones (F4, M5, M9).
//!
//! Each file of `data/valid` and `data/invalid` is one case, here and for the fuzz targets. It is
//! tried alone and inside other texts, so that it meets the blocks of the SIMD reader at every
//! offset.

use std::fs;
use std::path::Path;

use duet_rpc_proto::text::{Kind, Text, Why};

const DEPTH: usize = 128;

fn corpus(kind: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(kind);
    let files = fs::read_dir(&folder).expect("the corpus is there");
    let cases: Vec<_> = files
        .map(|file| {
            let path = file.expect("it can be listed").path();
            (path.display().to_string(), fs::read(&path).expect("it can be read"))
        })
        .collect();
    assert!(cases.len() > 50, "{} cases in {}", cases.len(), folder.display());
    cases
}

/// The text as an element of an array, after `before` other bytes, so that every alignment occurs.
fn embedded(text: &[u8], before: usize) -> Vec<u8> {
    [b"[\"", vec![b'x'; before].as_slice(), b"\",", text, b",", &[b' '; 300], b"0]"].concat()
}

#[test]
fn valid_texts_are_accepted_at_every_offset() {
    for (name, text) in corpus("valid") {
        let checked = Text::check(&text, DEPTH).unwrap_or_else(|not| panic!("{name}: {not}"));
        assert_eq!(checked.as_str().as_bytes(), text);
        for before in 0..130 {
            let around = embedded(&text, before);
            let checked = Text::check(&around, DEPTH + 1);
            let checked = checked.unwrap_or_else(|not| panic!("{name} at {before}: {not}"));
            let elements: Vec<_> = checked.elements().map(|element| element.as_str()).collect();
            assert_eq!(elements.len(), 3, "{name} at {before}");
            let trimmed = std::str::from_utf8(&text).expect("valid ones are UTF-8");
            let white: &[char] = &[' ', '\t', '\r', '\n'];
            assert_eq!(elements[1], trimmed.trim_matches(white), "{name} at {before}");
        }
    }
}

#[test]
fn invalid_texts_are_refused_at_every_offset() {
    for (name, text) in corpus("invalid") {
        assert!(Text::check(&text, DEPTH).is_err(), "{name}");
        // A few are valid inside another text.
        let alone_only = ["two_values", "two_strings", "depth_129", "long_unclosed"];
        if alone_only.iter().any(|alone| name.contains(alone)) {
            continue;
        }
        for before in 0..130 {
            assert!(Text::check(&embedded(&text, before), DEPTH).is_err(), "{name} at {before}");
        }
    }
}

#[test]
fn every_truncated_text_and_every_trailing_byte_is_refused() {
    for (name, text) in corpus("valid") {
        let white = |byte: &u8| b" \t\r\n".contains(byte);
        let Ok(checked) = Text::check(&text, DEPTH) else { panic!("{name}") };
        if checked.kind() == Kind::Scalar && text.iter().any(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let end = text.iter().rposition(|byte| !white(byte)).expect("not blank") + 1;
        let step = (text.len() / 500).max(1);
        for cut in (0..end).step_by(step) {
            assert!(Text::check(&text[..cut], DEPTH).is_err(), "{name} cut at {cut}");
        }
        for byte in 0..=255 {
            let longer = [&text[..], &[byte]].concat();
            assert_eq!(Text::check(&longer, DEPTH).is_ok(), white(&byte), "{name} and {byte}");
        }
    }
}

#[test]
fn changing_any_byte_gives_the_same_verdict_as_an_independent_parser() {
    let long = format!("[{}\"\\n\",{{\"a\":-0.5e1,\"b\":[true,null]}}]", "12,\"x\",".repeat(40));
    for text in [r#"{"id":-1.5e3,"a":["\n\u00e9",true,{"b":null}]}"#, &long] {
        for place in 0..text.len() {
            for byte in 0..=255u8 {
                let mut changed = text.as_bytes().to_vec();
                changed[place] = byte;
                let expect = std::str::from_utf8(&changed).is_ok()
                    && serde_json::from_slice::<serde::de::IgnoredAny>(&changed).is_ok();
                let found = Text::check(&changed, DEPTH).is_ok();
                let shown = changed.escape_ascii();
                assert_eq!(found, expect, "{shown}");
            }
        }
    }
}

#[test]
fn a_refusal_has_its_reason() {
    let why = |bytes: &[u8], depth| Text::check(bytes, depth).expect_err("refused").why;
    assert_eq!(why(b"[1,]", 8), Why::Syntax);
    assert_eq!(why(b"[[]]", 1), Why::TooDeep);
    assert_eq!(why(b"\"\xff\"", 8), Why::NotUtf8);
    assert_eq!(Text::check(b"[1,]", 8).expect_err("refused").at, 3);
}

/// Requests of a size, in the shapes that have separate readers: flat params, nested params,
/// and none.
fn requests(size: usize) -> Vec<String> {
    let head = r#"{"jsonrpc":"2.0","id":17,"method":"echo","params":"#;
    let text = |used: usize| "a sentence; ".chars().cycle().take(size.saturating_sub(used));
    let flat = format!("{head}{{\"line\":7,\"text\":\"{}\"}}}}", text(80).collect::<String>());
    let mut nested = format!("{head}{{\"items\":[");
    for n in 0..size.saturating_sub(90) / 24 {
        nested.push_str(&format!("[{n},{{}}],{{\"a\":-{n}.5,\"b\":[]}},"));
    }
    nested.push_str(&format!("null],\"text\":\"{}\"}}}}", text(nested.len()).collect::<String>()));
    let short = format!("{{\"id\":\"{}\",\"result\":[true]}}", text(26).collect::<String>());
    vec![flat, nested, short]
}

#[test]
fn a_quote_in_the_wrong_place_of_flat_params_is_found_at_every_size() {
    for pad in 0..200 {
        let pad = "x".repeat(pad);
        let valid = format!(r#"{{"params":{{"a":"x",":":"y"}},"pad":"{pad}"}}"#);
        assert!(Text::check(valid.as_bytes(), DEPTH).is_ok(), "{valid}");
        // A reader that is one byte too far back would read these as valid names and values.
        for broken in
            [r#"{"a":"x",":"y"}"#, r#"{"a":"x","":"y":"z"}"#, r#"{"a":1,:"y"}"#, r#"{"a":","b":1}"#]
        {
            let text = format!(r#"{{"params":{broken},"pad":"{pad}"}}"#);
            assert!(Text::check(text.as_bytes(), DEPTH).is_err(), "{text}");
        }
    }
}

#[test]
fn f4_errors_in_a_flat_container_are_found_at_every_size() {
    for size in [0, 70, 150, 300] {
        let pad = "x".repeat(size);
        let with = |text: &str| text.replace("<pad>", &pad).into_bytes();
        let not_utf8 = [&with(r#"{"a":"<pad>"#)[..], b"\xff\"}"].concat();
        for wrong in [with(r#"["a":"<pad>"}"#), with(r#"{"a":"<pad>",":1}"#), not_utf8] {
            let params = [br#"{"params":"#, &wrong[..], b"}"].concat();
            for text in [wrong, params] {
                assert!(Text::check(&text, DEPTH).is_err(), "{}", text.escape_ascii());
            }
        }
    }
}

#[test]
fn requests_of_every_size_agree_with_an_independent_parser() {
    for size in 1..400 {
        for request in requests(size) {
            let bytes = request.as_bytes();
            let text = Text::check(bytes, DEPTH).unwrap_or_else(|not| panic!("{request}: {not}"));
            assert_eq!(text.kind(), Kind::Object);
            // Changes every third position. The sizes together cover all positions, at each offset
            // in a block.
            for place in (size % 3..bytes.len()).step_by(3) {
                for byte in *b"{],:\" 0\\x\xff" {
                    let mut changed = bytes.to_vec();
                    changed[place] = byte;
                    let is_utf8 = std::str::from_utf8(&changed).is_ok();
                    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&changed).is_ok();
                    let found = Text::check(&changed, DEPTH);
                    assert_eq!(found.is_ok(), is_utf8 && is_json, "{}", changed.escape_ascii());
                }
            }
        }
    }
}
