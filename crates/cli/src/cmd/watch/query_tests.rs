//! Tests of queries: what they select, in which order, and what they notice later.

use std::time::Instant;

use duet_rpc_trace::Filter;

use super::index::Index;
use super::query::{Only, Query, Selection, Sort};
use super::tests::{ALL, HEADER, TestFolder, answer, append, request};

/// The numbers of the records that a selection finds.
fn find(query: &mut Query, index: &mut Index, is_running: bool) -> Vec<u32> {
    query.advance(index, is_running, Instant::now() + ALL).expect("it can be read");
    (0..query.total(index)).filter_map(|place| query.at(place)).collect()
}

#[test]
fn queries_select_and_sort() {
    let folder = TestFolder::new("queries");
    let path = folder.path("trace");
    let records = [
        request(1, 10, 1),
        request(2, 20, 2),
        answer(3, 120, 2, 2, "response"),
        request(4, 200, 3),
        answer(5, 210, 1, 1, "error"),
    ];
    append(&path, &format!("{HEADER}\n{}\n", records.join("\n")));
    let mut index = Index::default();
    index.advance(std::slice::from_ref(&path), ALL).expect("it can be read");
    let selection = |filter: &str| Selection { filter: filter.to_owned(), ..Selection::default() };
    let requests = || Selection { only: Only::Requests, ..Selection::default() };
    let rows: &[(Selection, &[u32])] = &[
        (selection(""), &[0, 1, 2, 3, 4]),
        (selection("kind:error"), &[4]),
        (selection("took:>150us"), &[0, 4]),
        (selection("is:unanswered"), &[3]),
        (selection("is:failed"), &[0, 4]),
        (selection("is:pending"), &[]),
        (requests(), &[0, 1, 3]),
        (Selection { sort: Sort::Took, ..requests() }, &[0, 1, 3]),
        (Selection { sort: Sort::Took, ..selection("") }, &[0, 4, 1, 2, 3]),
        (Selection { filter: "is:failed".into(), ..requests() }, &[0]),
        (Selection { filter: "is:unanswered".into(), ..requests() }, &[3]),
        (Selection { late: Some(5), ..selection("is:late kind:request") }, &[0, 1]),
        (selection("is:late"), &[]),
        (Selection { from: Some(130), to: Some(150), ..requests() }, &[0]),
        (Selection { to: Some(15), ..requests() }, &[0]),
        (Selection { from: Some(300), ..requests() }, &[3]),
    ];
    for (selection, expect) in rows {
        let filter = Filter::parse(&selection.filter).expect("it is well-formed");
        let mut query = Query::new(selection.clone(), filter);
        assert_eq!(find(&mut query, &mut index, false), *expect, "{selection:?}");
        for (place, number) in expect.iter().enumerate() {
            assert_eq!(query.position(*number), Some(place as u32), "{selection:?}");
        }
    }
}

#[test]
fn queries_notice_answers_that_come_later() {
    let folder = TestFolder::new("later");
    let path = folder.path("trace");
    append(&path, &format!("{HEADER}\n{}\n{}\n", request(1, 10, 1), request(2, 20, 2)));
    let mut index = Index::default();
    let mut pending = Query::new(
        Selection { filter: "is:pending".into(), ..Selection::default() },
        Filter::parse("is:pending").expect("it is well-formed"),
    );
    let paths = [path.clone()];
    index.advance(&paths, ALL).expect("it can be read");
    assert_eq!(find(&mut pending, &mut index, true), [0, 1]);
    append(&path, &format!("{}\n", answer(3, 30, 1, 1, "response")));
    index.advance(&paths, ALL).expect("it can be read");
    assert_eq!(find(&mut pending, &mut index, true), [1]);
    // In the order of time, it comes before the slow ones, and records without a time behind them.
    let stderr = r#"{"seq":4,"at":40,"dir":"err","kind":"stderr","text":"x"}"#;
    append(&path, &format!("{stderr}\n"));
    index.advance(&paths, ALL).expect("it can be read");
    let sorted = Selection { sort: Sort::Took, ..Selection::default() };
    let mut sorted = Query::new(sorted, Filter::parse("").expect("it is well-formed"));
    assert_eq!(find(&mut sorted, &mut index, true), [1, 0, 2, 3]);
    // The session has ended: nothing is pending any more.
    assert_eq!(find(&mut pending, &mut index, false), [0; 0]);
}
