//! Dialogues in which both sides send at any time, and the errors where the server cannot.

use super::Step::{Back, Both, Call, Refused, Settle};
use super::{
    CANCELLED, Dialogue, LONG, Needs, error, notification, ping, request, result, with_push,
};

pub(super) fn rows() -> Vec<Dialogue> {
    let mut rows = vec![no_push(), cancelled(), overtaking(), duplicate(), emitted()];
    rows.extend(callbacks());
    rows
}

fn no_push() -> Dialogue {
    let steps = vec![
        request("1", "system.callback", r#"{"method":"a"}"#),
        Refused(1),
        request("2", "test.emit", r#"{"count":2}"#),
        Refused(2),
    ];
    let name = "t1 without server push, a method that needs it fails immediately";
    Dialogue { name, needs: Needs::NoPush, steps: steps.into_iter().chain(ping()).collect() }
}

fn cancelled() -> Dialogue {
    with_push(
        "p3 a request is cancelled",
        vec![
            request("1", "test.sleep", LONG),
            notification("$/cancelRequest", r#"{"id":1}"#),
            Back(error("1", CANCELLED)),
            request(r#""one""#, "test.sleep", LONG),
            notification("$/cancelRequest", r#"{"id":1}"#),
            notification("$/cancelRequest", r#"{"id":"one"}"#),
            Back(error(r#""one""#, CANCELLED)),
        ],
    )
}

fn overtaking() -> Dialogue {
    with_push(
        "l2 a quick request overtakes a slow one",
        vec![
            request("1", "test.sleep", LONG),
            request("2", "system.echo", "[2]"),
            Back(result("2", "[2]")),
            notification("$/cancelRequest", r#"{"id":1}"#),
            Back(error("1", CANCELLED)),
        ],
    )
}

fn duplicate() -> Dialogue {
    let object = r#"{"code":-32600,"message":"Invalid Request","data":{"reason":"duplicate-id"}}"#;
    with_push(
        "m11 a duplicate id in flight is refused",
        vec![
            request("1", "test.sleep", LONG),
            request("1", "system.ping", ""),
            Back(error("1", object)),
            notification("$/cancelRequest", r#"{"id":1}"#),
            Back(error("1", CANCELLED)),
        ],
    )
}

fn emitted() -> Dialogue {
    let event =
        |number| format!(r#"{{"jsonrpc":"2.0","method":"test.event","params":[{number}]}}"#);
    let mut steps = vec![request("1", "test.emit", r#"{"count":100}"#)];
    steps.extend((1..=100).map(|number| Back(event(number))));
    steps.push(Back(result("1", "100")));
    with_push("notifications come before the answer sent after them", steps)
}

fn callbacks() -> [Dialogue; 2] {
    let failed = r#""error":{"code":-32042,"message":"no ünit","data":{"why":[1,2]}}"#;
    let passed_on = r#"{"code":-32042,"message":"no ünit","data":{"why":[1,2]}}"#;
    [
        with_push(
            "p1 the daemon calls the client and passes its answer on",
            vec![
                request("1", "system.callback", r#"{"method":"a/b","params":{"c":[1]}}"#),
                Call(r#""method":"a/b","params":{"c":[1]}}"#),
                Settle(r#""result":{"é":[1,null]}"#),
                Back(result("1", r#"{"é":[1,null]}"#)),
                request("2", "system.callback", r#"{"method":"a"}"#),
                Call(r#""method":"a"}"#),
                Settle(failed),
                Back(error("2", passed_on)),
            ],
        ),
        with_push(
            "p3 a cancelled callback cancels the call to the client",
            vec![
                request("1", "system.callback", r#"{"method":"never"}"#),
                Call(r#""method":"never"}"#),
                notification("$/cancelRequest", r#"{"id":1}"#),
                Both([
                    r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":$CALL}}"#
                        .to_owned(),
                    error("1", CANCELLED),
                ]),
                // A late answer is ignored.
                Settle(r#""result":1"#),
            ],
        ),
    ]
}
