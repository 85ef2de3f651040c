//! Properties of the framings, on generated streams (F1, F2, F5).

#[path = "support/cases.rs"]
mod cases;
mod support;

use cases::{config, pieces};
use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Framing, write_frame};
use duet_rpc_proto::text::Text;
use proptest::prelude::*;
use support::{drain, feed};

const MESSAGE_BYTES: usize = 400;

fn limits() -> Limits {
    Limits::default().with(|it| {
        it.message_bytes = MESSAGE_BYTES;
        it.header_bytes = 120;
    })
}

/// Any JSON value as text, with white space wherever it is allowed.
fn json() -> impl Strategy<Value = String> {
    let string = prop_oneof![
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        Just(r#""Content-Length: 7\r\n\r\n""#.to_owned()),
        Just(r#""\ud800\u0000\/""#.to_owned()),
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| serde_json::Value::from(number).to_string()),
        string.clone(),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        let space = prop_oneof![Just(""), Just(" "), Just("\n  "), Just("\r\n\t")];
        let member = (string.clone(), inner.clone(), space.clone())
            .prop_map(|(name, value, space)| format!("{space}{name}{space}:{space}{value}{space}"));
        prop_oneof![
            (prop::collection::vec(inner, 0..5), space)
                .prop_map(|(all, space)| format!("[{space}{}{space}]", all.join(","))),
            prop::collection::vec(member, 0..5).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

/// Bytes that are not a frame, biased towards parts of one.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..20),
        prop::sample::select(vec![
            &b"Content-Length"[..],
            b"Content-Length: ",
            b"Content-Length: 9",
            b"\r\n",
            b"\n",
            b"\r\n\r\n",
            b"X: y\r\n",
            b"{\"a\":",
            b"\0",
            b"\0\0\0\x05",
            b"\0\0\0\0",
            b"hello: ",
            b"-",
            b"12",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

fn encode(framing: Framing, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let written = write_frame(framing, &mut out, |out| {
        out.extend_from_slice(text.as_bytes());
        Ok::<_, ()>(())
    });
    assert_eq!(written, Ok(()));
    out
}

/// The text as the framing sends it: `ndjson` replaces line ends.
fn as_sent(framing: Framing, text: &str) -> String {
    match framing {
        Framing::Ndjson => text.replace(['\n', '\r'], " "),
        Framing::Lsp | Framing::Length => text.to_owned(),
    }
}

fn decode(framing: Framing, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut decoder = Decoder::new(framing, &limits());
    let mut found = feed(&mut decoder, &pieces(bytes, cuts));
    decoder.finish();
    found.extend(drain(&mut decoder));
    found
}

fn is_fault(event: &str) -> bool {
    event.starts_with('!')
}

proptest! {
    #![proptest_config(config(2))]

    #[test]
    fn f1_f5_written_frames_are_decoded(
        texts in prop::collection::vec(json(), 1..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let texts: Vec<_> = texts.into_iter().filter(|text| text.len() <= MESSAGE_BYTES).collect();
        for framing in Framing::ALL {
            let stream: Vec<u8> = texts.iter().flat_map(|text| encode(framing, text)).collect();
            let expect: Vec<_> = texts.iter().map(|text| as_sent(framing, text)).collect();
            prop_assert_eq!(decode(framing, &stream, &cuts), expect);
        }
    }

    #[test]
    fn f2_every_message_comes_out_once_and_in_order_whatever_garbage_stands_between(
        parts in prop::collection::vec((garbage(), "[a-z]{1,20}"), 1..6),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        for framing in Framing::ALL {
            let (mut stream, mut expect) = (Vec::new(), Vec::new());
            for (garbage, name) in &parts {
                let text = format!(r#"{{"valid":"{name}"}}"#);
                stream.extend_from_slice(garbage);
                // Separates the garbage from the frame: it could otherwise end in `-` or digits
                // before a header, add a second length to a section, or continue a line.
                stream.extend_from_slice(match framing {
                    Framing::Lsp => b"\r\n\r\n",
                    Framing::Ndjson => b"\n",
                    Framing::Length => b"",
                });
                stream.extend_from_slice(&encode(framing, &text));
                expect.push(text);
            }
            let found = decode(framing, &stream, &cuts);
            // Garbage may contain a text by itself, such as `12`.
            let valid: Vec<_> = found.iter().filter(|event| event.contains("valid")).cloned().collect();
            prop_assert_eq!(&valid, &expect, "{:?} {}", found, stream.escape_ascii());
        }
    }

    #[test]
    fn f2_one_run_of_garbage_is_at_most_one_fault(
        runs in prop::collection::vec(prop::collection::vec(46u8..126, 1..300), 1..5),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        // The garbage has no line end, which could end a header, and no dash, because no header
        // begins after a dash.
        for framing in Framing::ALL {
            let mut stream = Vec::new();
            for run in &runs {
                stream.extend_from_slice(run);
                stream.extend_from_slice(if framing == Framing::Ndjson { b"\n" } else { b"" });
                stream.extend_from_slice(&encode(framing, "[]"));
            }
            let found = decode(framing, &stream, &cuts);
            let faults = found.iter().filter(|event| is_fault(event)).count();
            prop_assert!(faults <= runs.len(), "{:?}", found);
            prop_assert_eq!(found.iter().filter(|event| *event == "[]").count(), runs.len());
        }
    }

    #[test]
    fn f1_f2_any_bytes_give_the_same_events_however_they_are_cut(
        bytes in garbage(),
        cuts in prop::collection::vec(any::<usize>(), 1..12),
    ) {
        for framing in Framing::ALL {
            let whole = decode(framing, &bytes, &[]);
            prop_assert!(whole.len() <= bytes.len());
            prop_assert_eq!(&whole, &decode(framing, &bytes, &cuts));
            prop_assert_eq!(&whole, &decode(framing, &bytes, &(0..bytes.len()).collect::<Vec<_>>()));
        }
    }

    #[test]
    fn generated_texts_are_accepted_and_their_elements_found(texts in prop::collection::vec(json(), 0..6)) {
        let array = format!("[{}]", texts.join(","));
        let checked = Text::check(array.as_bytes(), 128);
        let found: Vec<_> =
            checked.expect("it is JSON").elements().map(|element| element.as_str().to_owned()).collect();
        prop_assert_eq!(found, texts);
    }
}
