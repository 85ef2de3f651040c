//! The records that streams become, row by row.

use duet_rpc_trace::{Dir, Options, Record, Session};

/// The records of a session: `kind`, and the body, the head or the reason where they matter.
fn check(c2s: &str, s2c: &str, expected: &[&str]) {
    let mut found = Vec::new();
    let sink = |record: &Record<'_>| {
        let body = record.body.as_ref().map(|body| String::from_utf8_lossy(body.as_bytes()));
        let mut line = format!("{} {}", record.dir.name(), record.kind.name());
        if !record.kind.is_message() {
            line.extend(body.map(|body| format!(" {body:?}")));
        }
        line.extend(record.head.as_ref().map(|it| format!(" head {}", it.0.len())));
        line.extend(record.tail.as_ref().map(|it| format!(" tail {}", it.0.len())));
        line.extend(record.of.map(|of| format!(" of {of}")));
        found.push(line);
    };
    let mut session = Session::new(Options::default(), sink);
    session.handle_bytes(Dir::C2s, 1, c2s.as_bytes());
    session.handle_bytes(Dir::S2c, 2, s2c.as_bytes());
    let _ = session.handle_end(3);
    assert_eq!(found.pop().as_deref(), Some("tap end"));
    assert_eq!(found, expected, "{c2s:?} {s2c:?}");
}

const ASK: &str = "{\"id\":1,\"method\":\"a\"}\n";

#[test]
fn lines_become_messages_and_noise() {
    check(ASK, "{\"id\":1,\"result\":0}\r\n", &["c2s request", "s2c response tail 2 of 1"]);
    check(ASK, "{\"id\":1,\"error\":{}}\n", &["c2s request", "s2c error of 1"]);
    check(ASK, "{\"id\":2,\"result\":0}\n", &["c2s request", "s2c response"]);
    check(ASK, "warn\n\n", &["c2s request", "s2c noise \"warn\\n\"", "s2c blank \"\\n\""]);
    check(ASK, "[info] x\n", &["c2s request", "s2c noise \"[info] x\\n\""]);
    check(ASK, "{\"id\":1,\n", &["c2s request", "s2c broken \"{\\\"id\\\":1,\\n\""]);
    check(
        "{\"method\":\"n\"}\n7\n[]\n{}\n",
        "",
        &["c2s notification", "c2s invalid", "c2s invalid", "c2s invalid"],
    );
    let batch = "[{\"id\":1,\"method\":\"a\"},{\"method\":\"n\"}]\n";
    check(batch, "[{\"id\":1,\"result\":0}]\n", &["c2s batch", "s2c batch of 1"]);
}

#[test]
fn headers_become_messages_and_noise() {
    let ask = "Content-Length: 21\r\n\r\n{\"id\":1,\"method\":\"a\"}";
    let answer = "{\"id\":1,\"result\":0}";
    let usual = format!("Content-Length: 19\r\n\r\n{answer}");
    check(ask, &usual, &["c2s request", "s2c response of 1"]);
    let other = format!("content-length: 19\r\nContent-Type: x/vscode-jsonrpc\r\n\r\n{answer}");
    check(
        ask,
        &other,
        &[
            "c2s request",
            "s2c broken \"content-length: 19\\r\\nContent-Type: x/vscode-jsonrpc\\r\\n\\r\\n{\\\"id\\\":1,\\\"result\\\":0}\"",
        ],
    );
    let spelled = format!("content-length:19\r\n\r\n{answer}");
    check(ask, &spelled, &["c2s request", "s2c response head 21 of 1"]);
    let printed = format!("print\n{usual}");
    check(ask, &printed, &["c2s request", "s2c noise \"print\\n\"", "s2c response of 1"]);
    let broken = format!("Content-Length: 3\r\n\r\nabc{usual}");
    check(
        ask,
        &broken,
        &[
            "c2s request",
            "s2c broken \"Content-Length: 3\\r\\n\\r\\n\"",
            "s2c more \"abc\"",
            "s2c response of 1",
        ],
    );
}

#[test]
fn banner_of_the_server_does_not_decide_the_framing() {
    let answer = "{\"id\":1,\"result\":0}\n";
    check("", &format!("banner: 1\n{answer}"), &["s2c noise \"banner: 1\\n\"", "s2c response"]);
}

#[test]
fn w3_loss_is_recorded_and_the_next_message_is_found() {
    let mut found = Vec::new();
    let sink = |record: &Record<'_>| {
        found.push((record.kind.name(), record.lost, record.end.map(|end| end.lossless)));
    };
    let mut session = Session::new(Options::default(), sink);
    session.handle_bytes(Dir::C2s, 1, b"Content-Length: 21\r\n\r\n{\"id\":1,");
    session.handle_loss(Dir::C2s, 2, 100);
    session.handle_bytes(Dir::C2s, 3, b"x\"}Content-Length: 14\r\n\r\n{\"method\":\"n\"}");
    let _ = session.handle_end(4);
    let none = (None, None);
    let with = |name, (lost, end): (Option<u64>, Option<bool>)| (name, lost, end);
    assert_eq!(
        found,
        [
            with("broken", none),
            with("loss", (Some(100), None)),
            with("noise", none),
            with("notification", none),
            with("end", (None, Some(false))),
        ]
    );
}
