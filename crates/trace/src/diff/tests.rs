//! Tests of the comparison of traces.

use std::io::Cursor;

use super::{DiffOptions, Difference, diff};

/// Makes a trace of messages: `>` from the client, `<` from the server.
fn trace(lines: &[&str]) -> Cursor<String> {
    let mut file = "{\"duet\":1}\n".to_owned();
    for (number, line) in lines.iter().enumerate() {
        let (dir, json) = line.split_at(1);
        let dir = if dir == ">" { "c2s" } else { "s2c" };
        let kind = match (json.contains("\"m\""), json.contains("\"id\"")) {
            _ if json.starts_with('[') => "batch",
            (true, true) => "request",
            (true, false) => "notification",
            _ if json.contains("\"error\"") => "error",
            _ => "response",
        };
        let json = json.replace("\"m\"", "\"method\"");
        file += &format!(
            "{{\"seq\":{},\"at\":{number},\"dir\":\"{dir}\",\"kind\":\"{kind}\",\"msg\":{json}}}\n",
            number + 1
        );
    }
    Cursor::new(file)
}

fn options(ignore: &[&str], ignore_methods: &[&str], is_unordered: bool) -> DiffOptions {
    DiffOptions {
        ignore: ignore.iter().map(|it| it.parse().expect("a pointer")).collect(),
        ignore_methods: ignore_methods.iter().map(|it| (*it).to_owned()).collect(),
        is_unordered,
        tolerance: None,
    }
}

fn compared(first: &[&str], second: &[&str], options: &DiffOptions) -> Vec<String> {
    let mut found = Vec::new();
    let text = |value: Option<serde_json::Value>| value.map_or("-".to_owned(), |it| it.to_string());
    diff(trace(first), trace(second), options, |difference| {
        found.push(match difference {
            Difference::Same(side) => format!("= {}", side.method),
            Difference::Slower(side, old, new) => format!("> {} {old} {new}", side.method),
            Difference::Missing(side) => format!("- {} {}", side.dir.name(), side.method),
            Difference::Extra(side) => format!("+ {} {}", side.dir.name(), side.method),
            Difference::Changed(side, changes) => {
                let changes = changes
                    .into_iter()
                    .map(|it| format!("{}: {} → {}", it.path, text(it.old), text(it.new)));
                format!("~ {} {}", side.method, changes.collect::<Vec<_>>().join(", "))
            }
        });
    })
    .expect("memory can be read");
    found
}

const FIRST: [&str; 7] = [
    r#">{"id":1,"m":"init","params":{"pid":7,"list":[1,2]}}"#,
    r#"<{"m":"log","params":{"text":"a"}}"#,
    r#"<{"id":1,"result":{"name":"x","version":"1"}}"#,
    r#">{"m":"open"}"#,
    r#">{"id":2,"m":"hover"}"#,
    r#"<{"id":2,"error":{"code":1}}"#,
    r#">{"id":3,"m":"stop"}"#,
];

#[test]
fn r6_traces_are_compared_exchange_by_exchange() {
    let plain = options(&[], &[], false);
    assert_eq!(
        compared(&FIRST, &FIRST, &plain),
        ["= init", "= log", "= open", "= hover", "= stop"]
    );
    // Other ids, another order of the server's notifications, and of members.
    let same = [
        r#">{"id":"a","m":"init","params":{"list":[1,2],"pid":7}}"#,
        r#">{"m":"open"}"#,
        r#">{"id":2,"m":"hover"}"#,
        r#"<{"id":2,"error":{"code":1}}"#,
        r#"<{"id":"a","result":{"name":"x","version":"1"}}"#,
        r#"<{"m":"log","params":{"text":"a"}}"#,
        r#">{"id":3,"m":"stop"}"#,
    ];
    assert!(compared(&FIRST, &same, &plain).iter().all(|it| it.starts_with('=')));
    let other = [
        r#">{"id":1,"m":"init","params":{"pid":8,"list":[1,2,3],"a/b":null}}"#,
        r#"<{"id":1,"result":{"name":"x","version":"2"}}"#,
        r#">{"m":"new"}"#,
        r#">{"id":2,"m":"hover"}"#,
        r#"<{"id":2,"result":1}"#,
        r#"[{"m":"log"}]"#,
        r#">{"id":3,"m":"stop"}"#,
        r#"<{"id":3,"result":null}"#,
    ];
    let other: Vec<_> =
        other.iter().map(|it| it.replace("[{\"m\":\"log\"}]", "<[{\"m\":\"log\"}]")).collect();
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let expected = [
        "~ init /params/list/2: - → 3, /params/pid: 7 → 8, /params/a~1b: - → null, /result/version: \"1\" → \"2\"",
        "~ log /params: {\"text\":\"a\"} → -",
        "+ c2s new",
        "- c2s open",
        "~ hover /result: - → 1, /error: {\"code\":1} → -",
        "~ stop /result: - → null",
    ];
    assert_eq!(compared(&FIRST, &other, &plain), expected);
    let lenient = options(
        &["/params/pid", "/params/list/*", "/params/a~1b", "/result", "/error", "/params"],
        &["o*", "new"],
        false,
    );
    assert!(compared(&FIRST, &other, &lenient).iter().all(|it| it.starts_with('=')));
}

#[test]
fn r6_unordered_traces_pair_equal_values_first() {
    let first = [r#">{"m":"a","params":[1]}"#, r#">{"m":"a","params":[2]}"#, r#">{"m":"b"}"#];
    let second = [r#">{"m":"b"}"#, r#">{"m":"a","params":[3]}"#, r#">{"m":"a","params":[1]}"#];
    let ordered = compared(&first, &second, &options(&[], &[], false));
    assert_eq!(ordered, ["+ c2s b", "~ a /params/0: 1 → 3", "~ a /params/0: 2 → 1", "- c2s b"]);
    let unordered = compared(&first, &second, &options(&[], &[], true));
    assert_eq!(unordered, ["= a", "~ a /params/0: 2 → 3", "= b"]);
    let ignoring = compared(&first, &second, &options(&["/params/0"], &[], true));
    assert_eq!(ignoring, ["= a", "= a", "= b"]);
}

#[test]
fn y5_slower_answers_are_reported_beyond_the_tolerance() {
    let first = [r#">{"id":1,"m":"a"}"#, r#"<{"id":1,"result":1}"#];
    let second = [r#">{"id":1,"m":"a"}"#, r#"<{"m":"b"}"#, r#"<{"id":1,"result":1}"#];
    for (tolerance, expected) in [
        (None, vec!["= a", "+ s2c b"]),
        (Some(0), vec!["> a 1 2", "= a", "+ s2c b"]),
        (Some(1), vec!["= a", "+ s2c b"]),
    ] {
        let options = DiffOptions { tolerance, ..DiffOptions::default() };
        assert_eq!(compared(&first, &second, &options), expected);
    }
}

#[test]
fn y7_redacted_and_cut_values_may_be_any() {
    let old = r#"{"duet":1}
{"seq":1,"at":0,"dir":"c2s","kind":"notification","redacted":true,"msg":{"method":"a","params":{"token":"[redacted]","b":1}}}
{"seq":2,"at":0,"dir":"c2s","kind":"notification","method":"cut","cut":true,"text":"{\"method"}
{"seq":3,"at":0,"dir":"c2s","kind":"notification","msg":{"method":"a","params":{"token":"[redacted]"}}}
"#;
    let new = r#"{"duet":1}
{"seq":1,"at":0,"dir":"c2s","kind":"notification","msg":{"method":"a","params":{"token":{"x":1},"b":2}}}
{"seq":2,"at":0,"dir":"c2s","kind":"notification","msg":{"method":"cut","params":[1]}}
{"seq":3,"at":0,"dir":"c2s","kind":"notification","msg":{"method":"a","params":{"token":"x"}}}
"#;
    let mut found = Vec::new();
    let (old, new) = (Cursor::new(old), Cursor::new(new));
    diff(old, new, &DiffOptions::default(), |difference| {
        if let Difference::Changed(side, changes) = difference {
            let paths = changes.into_iter().map(|change| change.path).collect::<Vec<_>>();
            found.push(format!("{} {}", side.seq, paths.join(" ")));
        }
    })
    .expect("memory can be read");
    // A text that only looks like a redaction is a value.
    assert_eq!(found, ["1 /params/b", "3 /params/token"]);
}

#[test]
fn r6_an_unreadable_trace_is_named() {
    let bad = Cursor::new("{\"duet\":1}\nhello\n".to_owned());
    let error = diff(trace(&[]), bad, &options(&[], &[], false), |_| {}).expect_err("it is bad");
    assert_eq!(error.0, 1);
    assert!(error.1.to_string().starts_with("line 2 is not a record"), "{}", error.1);
    assert!("params".parse::<super::Pointer>().is_err());
}
