//! Tests of the relations between messages.

use super::recent::Recent;
use super::{FactsTable, REMEMBERED, Relation, Relations};
use crate::filter::Facts;
use crate::record::{Body, Dir, Kind, Record};

/// A record of a message: its time is its `seq` in milliseconds.
fn record(seq: u64, dir: Dir, json: &'static str) -> Record<'static> {
    let has = |name: &str| json.contains(&format!("\"{name}\":"));
    let kind = match (has("method"), has("id"), has("error")) {
        _ if json.starts_with('[') => Kind::Batch,
        (true, true, _) if !json.contains("cancel") => Kind::Request,
        (true, _, _) => Kind::Notification,
        (_, _, true) => Kind::Error,
        _ => Kind::Response,
    };
    let mut record = Record::new(seq, seq * 1_000, dir, kind);
    record.body = Some(Body::from_json(json));
    record
}

fn relation(relations: &mut Relations, record: &Record<'_>) -> String {
    let messages = record.messages();
    let relations = messages.iter().map(|message| match relations.handle(record, message) {
        Relation::Request { in_use: None } => "request".to_owned(),
        Relation::Request { in_use: Some(asked) } => format!("id in use by {}", asked.seq),
        Relation::Answer { to: Some(asked), .. } if asked.cancelled.is_some() => {
            format!("answer to {}, cancelled", asked.seq)
        }
        Relation::Answer { to: Some(asked), .. } => format!("answer to {}", asked.seq),
        Relation::Answer { again: Some(seq), .. } => format!("answer to {seq} again"),
        Relation::Answer { .. } => "answer to nothing".to_owned(),
        Relation::Cancel { of } => format!("cancels {of:?}"),
        Relation::Progress { of } => format!("progress of {of:?}"),
        Relation::Other => "other".to_owned(),
    });
    relations.collect::<Vec<_>>().join(", ")
}

#[test]
fn r2_messages_are_related_by_direction_and_id() {
    use Dir::{C2s, S2c};
    let mut relations = Relations::new();
    for (number, (dir, json, expected)) in [
        (C2s, r#"{"id":1,"method":"a"}"#, "request"),
        (S2c, r#"{"id":1,"method":"b"}"#, "request"),
        (S2c, r#"{"id":1,"result":null}"#, "answer to 1"),
        (C2s, r#"{"id":1,"result":null}"#, "answer to 2"),
        (S2c, r#"{"id":1,"result":null}"#, "answer to 1 again"),
        (S2c, r#"{"id":9,"result":null}"#, "answer to nothing"),
        (S2c, r#"{"id":null,"error":{}}"#, "answer to nothing"),
        (C2s, r#"{"id":1,"method":"a"}"#, "request"),
        (C2s, r#"{"id":1,"method":"a"}"#, "id in use by 8"),
        (S2c, r#"{"id":1,"result":null}"#, "answer to 8"),
        (S2c, r#"{"id":1,"result":null}"#, "answer to 9"),
        (C2s, r#"{"id":"\u0061","method":"a"}"#, "request"),
        (C2s, r#"{"method":"$/cancelRequest","params":{"id":"a"}}"#, "cancels Some(12)"),
        (S2c, r#"{"id":"a","error":{"code":-32800}}"#, "answer to 12, cancelled"),
        (C2s, r#"{"method":"$/cancelRequest","params":{"id":"a"}}"#, "cancels None"),
        (C2s, r#"{"method":"$/cancelRequest"}"#, "cancels None"),
        (C2s, r#"{"id":2,"method":"a","params":{"workDoneToken":"t"}}"#, "request"),
        (S2c, r#"{"method":"$/progress","params":{"token":"t"}}"#, "progress of Some(17)"),
        (C2s, r#"{"method":"$/progress","params":{"token":"t"}}"#, "progress of None"),
        (C2s, r#"{"id":3,"method":"a","params":{"_meta":{"progressToken":5}}}"#, "request"),
        (
            S2c,
            r#"{"method":"notifications/progress","params":{"progressToken":5}}"#,
            "progress of Some(20)",
        ),
        (
            S2c,
            r#"{"id":4,"method":"window/workDoneProgress/create","params":{"token":"u"}}"#,
            "request",
        ),
        (S2c, r#"{"method":"$/progress","params":{"token":"u"}}"#, "progress of Some(22)"),
        (C2s, r#"[{"id":5,"method":"a"},{"method":"b"},7]"#, "request, other, other"),
        (S2c, r#"[{"id":5,"result":1},{"id":3,"error":{}}]"#, "answer to 24, answer to 20"),
    ]
    .into_iter()
    .enumerate()
    {
        let record = record(number as u64 + 1, dir, json);
        assert_eq!(relation(&mut relations, &record), expected, "{json}");
    }
    assert_eq!(relations.open().map(|asked| asked.seq).collect::<Vec<_>>(), [17, 22]);
}

#[test]
fn r2_a_cut_message_is_related_by_the_members_of_its_record() {
    let mut relations = Relations::new();
    let mut request = Record::new(1, 10, Dir::C2s, Kind::Request);
    (request.id, request.method, request.cut) = (Some("7".into()), Some("a".into()), true);
    assert_eq!(relation(&mut relations, &request), "request");
    let mut answer = Record::new(2, 30, Dir::S2c, Kind::Error);
    answer.id = Some("7".into());
    let messages = answer.messages();
    let found = relations.handle(&answer, &messages[0]);
    drop(messages);
    found.complete(&mut answer);
    assert_eq!((answer.of, answer.took, answer.method.as_deref()), (Some(1), Some(20), Some("a")));
}

#[test]
fn r2_memory_is_bounded_and_the_oldest_entries_go_first() {
    let mut recent = Recent::new(3);
    let key = |number: u64| (Dir::C2s, number.to_string());
    for number in 0..10 {
        recent.insert(key(number), number);
        recent.insert(key(0), 0);
    }
    assert_eq!(recent.values().copied().collect::<Vec<_>>(), [8, 9, 0]);
    assert_eq!(recent.forgotten(), 7);
    assert_eq!((recent.remove(&key(9)), recent.remove(&key(1))), (Some(9), None));
    assert_eq!(recent.values().copied().collect::<Vec<_>>(), [8, 0]);
}

#[test]
fn r2_requests_with_one_id_are_bounded_and_leave_in_their_order() {
    let mut relations = Relations::new();
    let extra = 5;
    let most = REMEMBERED as u64 + extra;
    for seq in 1..=most {
        relation(&mut relations, &record(seq, Dir::C2s, r#"{"id":1,"method":"a"}"#));
        // A cancellation does not go through all of them again.
        relation(
            &mut relations,
            &record(seq, Dir::C2s, r#"{"method":"$/cancelRequest","params":{"id":1}}"#),
        );
    }
    assert_eq!(relations.open().count(), REMEMBERED);
    assert!(relations.has_gap() && relations.open().all(|asked| asked.cancelled.is_some()));
    for seq in extra + 1..=most {
        let found = relation(&mut relations, &record(most, Dir::S2c, r#"{"id":1,"result":1}"#));
        assert_eq!(found, format!("answer to {seq}, cancelled"));
    }
    assert_eq!(relations.open().count(), 0);
}

#[test]
fn r1_facts_are_known_after_the_whole_trace_is_read() {
    let rows = [
        record(1, Dir::C2s, r#"{"id":1,"method":"quick"}"#),
        record(2, Dir::S2c, r#"{"id":1,"result":1}"#),
        record(3, Dir::C2s, r#"{"id":2,"method":"slow"}"#),
        record(4, Dir::C2s, r#"{"id":3,"method":"never"}"#),
        record(5, Dir::C2s, r#"{"method":"$/cancelRequest","params":{"id":2}}"#),
        record(6, Dir::C2s, r#"{"id":4,"method":"fails"}"#),
        record(7, Dir::S2c, r#"{"id":4,"error":{"code":1}}"#),
        record(9, Dir::S2c, r#"{"id":2,"error":{"code":-32800}}"#),
    ];
    for is_over in [true, false] {
        let mut table = FactsTable::new(3_000);
        for row in &rows {
            table.handle(&mut row.clone());
        }
        if is_over {
            table.handle(&mut Record::new(10, 10_000, Dir::S2c, Kind::Eof));
        }
        table.finish();
        let none = Facts::default();
        let quick = Facts { took: Some(1_000), ..none };
        let slow = Facts { took: Some(6_000), late: true, cancelled: true, ..none };
        let never = Facts { late: !is_over, pending: !is_over, unanswered: is_over, ..none };
        let cancel = Facts { cancelled: true, ..none };
        let failed = Facts { took: Some(1_000), failed: true, ..none };
        for (seq, facts) in [
            (1, quick),
            (2, quick),
            (3, slow),
            (4, never),
            (5, cancel),
            (6, failed),
            (7, failed),
            (9, slow),
        ] {
            assert_eq!(table.get(seq), facts, "{seq}");
        }
    }
}

/// As a session does (M2): numbers are compared as they are written, strings by their characters.
#[test]
fn r2_ids_are_compared_as_a_session_compares_them() {
    for (asked, answered, expected) in [
        (r#"{"id":1,"method":"a"}"#, r#"{"id":1.0,"result":0}"#, "answer to nothing"),
        (r#"{"id":1,"method":"a"}"#, r#"{"id":"1","result":0}"#, "answer to nothing"),
        (r#"{"id":1e0,"method":"a"}"#, r#"{"id":1e0,"result":0}"#, "answer to 1"),
        (r#"{"id":"a","method":"a"}"#, r#"{"id":"\u0061","result":0}"#, "answer to 1"),
    ] {
        let mut relations = Relations::new();
        relation(&mut relations, &record(1, Dir::C2s, asked));
        assert_eq!(
            relation(&mut relations, &record(2, Dir::S2c, answered)),
            expected,
            "{answered}"
        );
    }
}
