//! Rows of rules: input, expected output (X1–X5).

use super::{FaultRule, FaultStep, Faults};
use crate::record::Dir;

fn faults(rules: &[&str], seed: u64) -> Faults {
    let rule =
        |rule: &&str| rule.parse::<FaultRule>().unwrap_or_else(|error| panic!("{rule}: {error}"));
    Faults::new(rules.iter().map(rule).collect(), seed)
}

/// Everything that a direction does until it waits for input, with its time in milliseconds where that
/// is not zero.
fn drain(faults: &mut Faults, dir: Dir) -> Vec<String> {
    let (mut now, mut steps) = (0, Vec::new());
    loop {
        let time = if now == 0 { String::new() } else { format!("{} ", now / 1_000) };
        match faults.poll(dir, now) {
            FaultStep::Write(bytes) => {
                steps.push(format!("{time}{}", String::from_utf8_lossy(&bytes).trim_end()));
            }
            FaultStep::Wait(Some(next)) => now = next,
            FaultStep::Wait(None) => return steps,
            step => {
                steps.push(format!("{time}{step:?}"));
                if step == FaultStep::Cut {
                    return steps;
                }
            }
        }
    }
}

const REQUEST: &str = r#"{"id":1,"method":"ask","params":{"a":1.50}}"#;
const RESULT: &str = r#"{"id":1,"result":"yes"}"#;
const ERROR: &str = r#"{"id":2,"error":{"code":5,"message":"no","data":[1]}}"#;
const EVENT: &str = r#"{"method":"event","params":[1]}"#;
const CANCEL: &str = r#"{"method":"$/cancelRequest","params":{"id":9}}"#;

/// A rule, the lines of the client, those of the server, and what the server and the client get.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const ROWS: &[Row] = &[
    ("delay=0s", &[REQUEST], &[RESULT], &[REQUEST], &[RESULT]),
    (
        "delay=200ms method:ask dir:s2c",
        &[REQUEST],
        &[RESULT, EVENT],
        &[REQUEST],
        &[r#"200 {"id":1,"result":"yes"}"#, r#"200 {"method":"event","params":[1]}"#],
    ),
    ("slice=20 dir:s2c", &[], &[EVENT], &[], &[r#"{"method":"event","p"#, r#"1 arams":[1]}"#]),
    ("throttle=40 dir:s2c", &[], &["[1,2]"], &[], &["[1", "50 ,2", "100 ]"]),
    ("stall=5s dir:s2c", &[], &[EVENT], &[], &[r#"5000 {"method":"event","params":[1]}"#]),
    ("stall dir:s2c", &[], &[EVENT, EVENT], &[], &[]),
    ("drop dir:s2c", &[REQUEST], &["noise", RESULT], &[REQUEST], &[]),
    ("drop method:ask", &[REQUEST], &[RESULT, EVENT], &[], &[EVENT]),
    ("drop nth:2", &[], &[EVENT, EVENT, ERROR], &[], &[EVENT, ERROR]),
    ("drop nth:>1", &[], &[EVENT, EVENT, ERROR], &[], &[EVENT]),
    ("drop every:2", &[], &["[1]", "[2]", "[3]", "[4]"], &[], &["[1]", "[3]"]),
    ("drop after:2", &[], &["[1]", "[2]", "[3]"], &[], &["[1]", "[2]"]),
    ("drop after:5s", &[], &["[1]"], &[], &["[1]"]),
    ("drop p:0", &[], &["[1]"], &[], &["[1]"]),
    ("drop p:1", &[], &["[1]"], &[], &[]),
    ("drop took:<1s", &[REQUEST], &[RESULT], &[REQUEST], &[]),
    ("dup=3 kind:notification", &[], &[EVENT], &[], &[EVENT, EVENT, EVENT]),
    ("reorder nth:1", &[], &[EVENT, RESULT, ERROR], &[], &[RESULT, EVENT, ERROR]),
    (
        "reorder=2,9s nth:1",
        &[],
        &[EVENT, RESULT],
        &[],
        &[RESULT, r#"9000 {"method":"event","params":[1]}"#],
    ),
    ("cut kind:response", &[REQUEST], &[EVENT, RESULT, ERROR], &[REQUEST], &[EVENT, "Cut"]),
    (
        "half-close dir:s2c nth:2",
        &[REQUEST],
        &[EVENT, RESULT, ERROR],
        &[REQUEST],
        &[EVENT, "HalfClose"],
    ),
    ("kill method:ask", &[REQUEST, EVENT], &[EVENT], &["Kill(9)"], &[EVENT]),
    #[cfg(all(test, unix))]
    ("kill=TERM nth:1", &[REQUEST, EVENT], &[], &["Kill(15)", EVENT], &[]),
    ("corrupt=json kind:response", &[], &[RESULT], &[], &[r#"{"id":1,"result":"yes"!"#]),
    ("corrupt=utf8 kind:response", &[], &[RESULT], &[], &["{\"\u{fffd}id\":1,\"result\":\"yes\"}"]),
    ("corrupt=truncate kind:response", &[], &[RESULT], &[], &[r#"{"id":1,"re"#]),
    ("corrupt=id", &[EVENT], &[RESULT], &[EVENT], &[r#"{"id":1000003,"result":"yes"}"#]),
    ("corrupt=print nth:1", &[], &[RESULT], &[], &["a stray print", RESULT]),
    (
        "error=-32603:\"it broke\" method:ask",
        &[REQUEST, EVENT],
        &[],
        &[EVENT],
        &[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"it broke"}}"#],
    ),
    (
        "error=1:x dir:s2c",
        &[REQUEST],
        &[RESULT, EVENT],
        &[REQUEST],
        &[r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#, EVENT],
    ),
    (
        "error=-32800:late method:$/cancelRequest",
        &[CANCEL],
        &[],
        &[CANCEL],
        &[r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32800,"message":"late"}}"#],
    ),
    (
        "answer={\"a\": 1} method:ask",
        &[REQUEST],
        &[EVENT],
        &[],
        &[r#"{"jsonrpc":"2.0","id":1,"result":{"a": 1}}"#, EVENT],
    ),
    (
        "set=/params/a=null method:ask",
        &[REQUEST, EVENT],
        &[],
        &[r#"{"id":1,"method":"ask","params":{"a":null}}"#, EVENT],
        &[],
    ),
    (
        "set=/result=0",
        &[REQUEST],
        &[RESULT, ERROR],
        &[REQUEST],
        &[
            r#"{"id":1,"result":0}"#,
            r#"{"id":2,"error":{"code":5,"message":"no","data":[1]},"result":0}"#,
        ],
    ),
    (
        "set=/error/code=7",
        &[],
        &[RESULT, ERROR],
        &[],
        &[RESULT, r#"{"id":2,"error":{"code":7,"message":"no","data":[1]}}"#],
    ),
    (
        "unset=/error/data",
        &[],
        &[RESULT, ERROR],
        &[],
        &[RESULT, r#"{"id":2,"error":{"code":5,"message":"no"}}"#],
    ),
];

#[test]
fn x1_x3_each_fault_does_what_it_says() {
    for (rule, client, server, to_server, to_client) in ROWS {
        let mut faults = faults(&[rule], 0);
        for (dir, lines) in [(Dir::C2s, client), (Dir::S2c, server)] {
            for line in *lines {
                faults.handle_bytes(dir, 0, format!("{line}\n").as_bytes());
            }
        }
        assert_eq!(drain(&mut faults, Dir::C2s), *to_server, "{rule}: the server gets");
        // A cut ends the other direction too, so that is looked at last.
        assert_eq!(drain(&mut faults, Dir::S2c), *to_client, "{rule}: the client gets");
        let is_idle = ["drop p:0", "drop after:5s"].contains(rule);
        assert_eq!(faults.take_notes().is_empty(), is_idle, "{rule}");
    }
}

#[test]
fn x1_changed_messages_keep_their_framing() {
    let lsp = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let length = |body: &str| {
        [&u32::try_from(body.len()).expect("short").to_be_bytes()[..], body.as_bytes(), b"\n"]
            .concat()
    };
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":7}"#;
    let rows =
        [(lsp(REQUEST).into_bytes(), lsp(answer).into_bytes()), (length(REQUEST), length(answer))];
    for (request, expected) in rows {
        let mut faults = faults(&["answer=7"], 0);
        // Byte by byte: nothing passes before the message is whole.
        for byte in &request {
            assert_eq!(faults.poll(Dir::S2c, 0), FaultStep::Wait(None));
            faults.handle_bytes(Dir::C2s, 0, &[*byte]);
        }
        assert!(faults.take_wake(Dir::S2c) && !faults.take_wake(Dir::S2c));
        assert_eq!(faults.poll(Dir::S2c, 0), FaultStep::Write(expected));
        assert_eq!(faults.poll(Dir::C2s, 0), FaultStep::Wait(None));
    }
}

#[test]
fn x1_rules_build_on_each_other_in_order() {
    let mut faults = faults(&["answer=1 method:ask", "set=/result=2", "dup", "delay=5ms"], 0);
    faults.handle_bytes(Dir::C2s, 0, format!("{REQUEST}\n").as_bytes());
    let answer = r#"5 {"jsonrpc":"2.0","id":1,"result":2}"#;
    assert_eq!(drain(&mut faults, Dir::S2c), [answer, answer]);
    assert_eq!(faults.counts(), [(1, 1); 4]);
}

#[test]
fn x1_bytes_that_no_rule_matches_pass_as_they_are() {
    let input = b"banner\nContent-Length: 2\r\nX: 1\r\n\r\n[]\r\n\r\nnoise\nContent-Length: 3\r\n\r\n[1]Content-Le";
    for size in 1..input.len() {
        let mut faults = faults(&["drop method:none"], 0);
        let mut output = Vec::new();
        for piece in input.chunks(size) {
            faults.handle_bytes(Dir::S2c, 0, piece);
        }
        faults.handle_eof(Dir::S2c, 0);
        loop {
            match faults.poll(Dir::S2c, 0) {
                FaultStep::Write(bytes) => output.extend(bytes),
                step => break assert_eq!(step, FaultStep::End),
            }
        }
        assert_eq!(output, input, "{size}: {}", output.escape_ascii());
        assert_eq!(faults.counts(), [(0, 0)]);
    }
}

#[test]
fn x1_direction_that_no_rule_concerns_passes_immediately() {
    let half = b"Content-Length: 99\r\n\r\n{";
    for (rule, is_immediate) in [
        ("drop dir:s2c", true),
        ("drop method:ask (dir:s2c | -dir:c2s)", true),
        ("drop dir:s2c|err", true),
        ("drop", false),
        ("drop dir:s2c | id:7", false),
        ("drop -dir:s2c", false),
        ("answer=1 dir:s2c", false),
    ] {
        let mut faults = faults(&[rule], 0);
        faults.handle_bytes(Dir::C2s, 0, half);
        let step = faults.poll(Dir::C2s, 0);
        assert_eq!(step == FaultStep::Write(half.to_vec()), is_immediate, "{rule}");
    }
    // The method of a request is known to its answer all the same.
    let mut faults = faults(&["drop dir:s2c method:ask"], 0);
    faults.handle_bytes(Dir::C2s, 0, format!("{REQUEST}\n").as_bytes());
    faults.handle_bytes(Dir::S2c, 0, format!("{RESULT}\n{EVENT}\n").as_bytes());
    faults.handle_eof(Dir::C2s, 0);
    assert_eq!(drain(&mut faults, Dir::S2c), [EVENT]);
    assert_eq!(drain(&mut faults, Dir::C2s), [REQUEST, "End"]);
}

#[test]
fn x1_messages_of_a_transport_have_no_frames() {
    let mut faults = faults(&["set=/params/a=2 method:ask", "slice=4,1ms dir:c2s"], 0);
    faults.handle_message(Dir::C2s, 0, REQUEST.as_bytes());
    assert_eq!(drain(&mut faults, Dir::C2s), [r#"9 {"id":1,"method":"ask","params":{"a":2}}"#]);
    // Not JSON: it passes.
    faults.handle_message(Dir::S2c, 0, b"\xff");
    assert_eq!(faults.poll(Dir::S2c, 0), FaultStep::Write(b"\xff".to_vec()));
}

#[test]
fn x1_pieces_of_an_unknown_protocol_are_messages() {
    let mut faults = faults(&["drop dir:s2c nth:2"], 0).with_pieces();
    for piece in ["HTTP/1.1 200 OK\r\n\r\n", "{", "}"] {
        faults.handle_bytes(Dir::S2c, 0, piece.as_bytes());
    }
    assert_eq!(drain(&mut faults, Dir::S2c), ["HTTP/1.1 200 OK", "}"]);
}

#[test]
fn x3_end_of_the_stream_passes_after_what_waits() {
    let mut faults = faults(&["delay=1s", "reorder nth:2"], 0);
    faults.handle_bytes(Dir::C2s, 0, b"[1]\n[2]\n");
    faults.handle_eof(Dir::C2s, 0);
    assert_eq!(drain(&mut faults, Dir::C2s), ["1000 [1]", "1000 [2]", "1000 End"]);
}

#[test]
fn x3_stall_without_a_time_lets_only_the_end_pass() {
    let mut faults = faults(&["stall nth:2"], 0);
    faults.handle_bytes(Dir::S2c, 0, b"[1]\n");
    assert_eq!(drain(&mut faults, Dir::S2c), ["[1]"]);
    faults.handle_bytes(Dir::S2c, 0, b"[2]\n[3]\n");
    let large = format!("[\"{}\"]\n", "x".repeat(1024 * 1024));
    for _ in 0..10 {
        assert!(
            faults.may_read(Dir::S2c),
            "its end stands behind everything that the sender wrote"
        );
        faults.handle_bytes(Dir::S2c, 0, large.as_bytes());
    }
    assert_eq!(faults.poll(Dir::S2c, 1 << 40), FaultStep::Wait(None));
    faults.handle_eof(Dir::S2c, 0);
    assert_eq!(faults.poll(Dir::S2c, 0), FaultStep::End);
}

#[test]
fn x3_cut_ends_both_directions() {
    let mut faults = faults(&["cut dir:s2c"], 0);
    faults.handle_bytes(Dir::C2s, 0, b"[1]\n");
    faults.handle_bytes(Dir::S2c, 0, b"[2]\n");
    assert_eq!(faults.poll(Dir::S2c, 0), FaultStep::Cut);
    assert!(faults.take_wake(Dir::C2s));
    assert_eq!(faults.poll(Dir::C2s, 0), FaultStep::Cut);
}

#[test]
fn x4_room_is_bounded_in_both_directions() {
    let message = format!("[\"{}\"]\n", "x".repeat(1024 * 1024));
    for rule in
        ["delay=1h", "stall=1h", "reorder=1000,1h", "throttle=1"].map(|it| it.replace("1h", "60m"))
    {
        let mut faults = faults(&[&rule], 0);
        let mut count = 0;
        while faults.may_read(Dir::S2c) {
            faults.handle_bytes(Dir::S2c, 0, message.as_bytes());
            count += 1;
            assert!(count < 10, "{rule}");
        }
        assert!(faults.may_read(Dir::C2s), "{rule}");
    }
    // Answers of ours to a client that does not read.
    let big = format!("answer=\"{}\"", "x".repeat(1024 * 1024));
    let mut faults = faults(&[&big], 0);
    let mut count = 0;
    while faults.may_read(Dir::C2s) {
        faults.handle_bytes(Dir::C2s, 0, format!("{REQUEST}\n").as_bytes());
        count += 1;
        assert!(count < 10);
    }
    // As soon as there is room again, the requests are read again.
    assert!(!faults.take_wake(Dir::C2s));
    while !faults.may_read(Dir::C2s) {
        assert!(matches!(faults.poll(Dir::S2c, 0), FaultStep::Write(_)));
    }
    assert!(faults.take_wake(Dir::C2s));
    faults.handle_closed(Dir::S2c);
    assert!(faults.may_read(Dir::C2s) && faults.take_wake(Dir::C2s));
    faults.handle_bytes(Dir::C2s, 0, format!("{REQUEST}\n").as_bytes());
    assert_eq!(faults.poll(Dir::S2c, 0), FaultStep::Wait(None));
}

#[test]
fn x5_same_seed_makes_the_same_faults_however_the_directions_interleave() {
    let run = |seed: u64, order: fn(usize) -> bool| {
        let mut faults = faults(&["drop p:0.3", "corrupt=bit p:0.3", "delay=1ms..9ms"], seed);
        let mut sent = [0, 0];
        for step in 0..400 {
            let side = usize::from(order(step));
            if sent[side] < 100 {
                let dir = [Dir::C2s, Dir::S2c][side];
                faults.handle_bytes(dir, 0, format!("[{}]\n", sent[side]).as_bytes());
                sent[side] += 1;
            }
        }
        assert_eq!(sent, [100, 100]);
        [Dir::C2s, Dir::S2c].map(|dir| drain(&mut faults, dir))
    };
    let one = run(7, |step| step % 2 == 0);
    assert_eq!(one, run(7, |step| step >= 200));
    assert_ne!(one, run(8, |step| step % 2 == 0));
    assert_ne!(one[0], one[1]);
    assert!((50..90).contains(&one[0].len()), "{}", one[0].len());
}

#[test]
fn x6_notes_have_the_message_as_it_came() {
    let mut faults = faults(&["set=/result=null method:ask", "delay=1ms kind:notification"], 0);
    faults.handle_bytes(Dir::C2s, 5, format!("{REQUEST}\n").as_bytes());
    faults.handle_bytes(Dir::S2c, 7, format!("{RESULT}\n{EVENT}\n").as_bytes());
    let notes = faults.take_notes();
    let [set, delay] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((set.at, set.dir, set.size), (7, Dir::S2c, RESULT.len() as u64));
    assert_eq!((set.id.as_deref(), set.method.as_deref()), (Some("1"), Some("ask")));
    assert_eq!(set.body.as_deref(), Some(RESULT.as_bytes()));
    assert_eq!((delay.rule.as_str(), &delay.body), ("delay=1ms kind:notification", &None));
    assert!(faults.take_notes().is_empty());
}
