//! Tests of the filter language.

use proptest::prelude::*;

use super::quantity::{Compare, OPS};
use super::term::{DIRS, KINDS, Pattern, STATES, Term};
use super::{Expr, Facts, Filter};
use crate::record::{Body, Dir, Kind, Record};

fn response() -> Record<'static> {
    let mut record = Record::new(17, 2_500_000, Dir::S2c, Kind::Response);
    record.id = Some("7".into());
    record.method = Some("textDocument/hover".into());
    record.took = Some(120_000);
    record.size = Some(2_000);
    record.body = Some(Body::from_json(r#"{"id":7,"result":"Foo bar"}"#));
    record
}

#[test]
fn r1_terms_match_records() {
    let late = Facts { late: true, took: Some(120_000), ..Facts::default() };
    for (filter, expected) in [
        ("", true),
        ("  ", true),
        ("method:textDocument/hover", true),
        ("method:textDocument/*", true),
        ("method:*hover", true),
        ("method:text*ment*er", true),
        ("method:text*hover*x", false),
        ("method:*", true),
        ("method:\"text*\"", false),
        ("method:hover", false),
        ("method:hover|*hover", true),
        ("dir:s2c", true),
        ("dir:c2s|err|tap", false),
        ("kind:response", true),
        ("-kind:response", false),
        ("--kind:response", true),
        ("id:7", true),
        ("id:8|7", true),
        ("id:77", false),
        ("took:>100ms", true),
        ("took:>=0.12s took:<=120000us", true),
        ("took:<0.12s", false),
        ("size:>1.9k size:<2k", true),
        ("size:>2k", false),
        ("size:>=1999 size:<0.1M", true),
        ("at:>2s at:<1m", true),
        ("seq:17", true),
        ("seq:>17", false),
        ("text:foo", true),
        ("FOO", true),
        ("\"foo bar\"", true),
        ("foo bar", true),
        ("foo baz", false),
        ("baz|bar", true),
        ("baz | bar", true),
        ("is:late", true),
        ("is:pending|late", true),
        ("is:pending", false),
        ("is:noise", false),
        ("kind:error | dir:s2c", true),
        ("kind:error|dir:s2c", true),
        ("kind:error | baz dir:s2c", false),
        ("(kind:error | dir:s2c) bar", true),
        ("-(kind:error|request foo)", true),
        ("-(kind:response foo)", false),
    ] {
        let parsed = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
        assert_eq!(parsed.matches(&response(), &late), expected, "{filter}");
    }
}

#[test]
fn r1_terms_need_the_member_that_they_compare() {
    let bare = Record::new(1, 0, Dir::Tap, Kind::Exit);
    for filter in ["method:*", "id:7", "took:>=0us", "size:>=0", "text:a", "is:noise"] {
        let filter = Filter::parse(filter).expect("it is well-formed");
        assert!(!filter.matches(&bare, &Facts::default()), "{filter}");
    }
    let noise = |dir, kind| {
        let filter = Filter::parse("is:noise").expect("it is well-formed");
        filter.matches(&Record::new(1, 0, dir, kind), &Facts::default())
    };
    assert!(noise(Dir::S2c, Kind::Noise) && noise(Dir::C2s, Kind::Broken));
    assert!(noise(Dir::S2c, Kind::More) && !noise(Dir::Err, Kind::More));
    let mut request = bare;
    request.id = Some("\"7\"".into());
    let filter = Filter::parse("id:7 took:>1s").expect("it is well-formed");
    let facts = Facts { took: Some(1_000_001), ..Facts::default() };
    assert!(filter.matches(&request, &facts), "the time of the answer, and a string as id");
}

#[test]
fn r1_a_mistake_names_its_position_and_what_was_expected() {
    let keys = "method:, dir:, kind:, id:, took:, at:, seq:, size:, text:, is: or text in quotes";
    let kinds = "a kind (request, notification, response, error, batch, invalid, broken, noise, \
                 blank, head, control, more, stderr, loss, fault, eof, signal, exit, end)";
    let deep = "(".repeat(65);
    for (filter, message) in [
        ("colour:red", &*format!("position 1: expected {keys}, found `colour:red`")),
        ("kind:error http://x", &*format!("position 12: expected {keys}, found `http://x`")),
        ("dir:up", "position 5: expected a direction (c2s, s2c, err, tap), found `up`"),
        ("kind:s2c", &*format!("position 6: expected {kinds}, found `s2c`")),
        (
            "is:late|slow",
            "position 9: expected a state (pending, late, cancelled, failed, unanswered, noise), found `slow`",
        ),
        ("took:100ms", "position 6: expected a time such as >100ms, found `100ms`"),
        ("took:>fast", "position 6: expected a time such as >100ms, found `>fast`"),
        ("took:>1", "position 6: expected a time such as >100ms, found `>1`"),
        ("took:>1.s", "position 6: expected a time such as >100ms, found `>1.s`"),
        ("took:>1.2.3s", "position 6: expected a time such as >100ms, found `>1.2.3s`"),
        (
            "took:>99999999999999m",
            "position 6: expected a time such as >100ms, found `>99999999999999m`",
        ),
        ("size:>1x", "position 6: expected a size such as >10k, found `>1x`"),
        ("size:10k", "position 6: expected a size such as >10k, found `10k`"),
        ("seq:one", "position 5: expected a number such as 17 or >17, found `one`"),
        ("seq:1k", "position 5: expected a number such as 17 or >17, found `1k`"),
        ("method:", "position 8: expected a value, found the end"),
        ("method: x", "position 8: expected a value, found ` `"),
        ("dir:s2c|", "position 9: expected a value, found the end"),
        ("dir:s2c||err", "position 9: expected a value, found `|`"),
        ("|", "position 1: expected a value, found `|`"),
        ("a |", "position 4: expected a value, found the end"),
        ("-", "position 2: expected a value, found the end"),
        ("- a", "position 2: expected a value, found ` `"),
        ("()", "position 2: expected a value, found `)`"),
        ("(a", "position 3: expected `)`, found the end"),
        ("a)", "position 2: expected a term or `(` before, found `)`"),
        ("é \"a", "position 5: expected `\"`, found the end"),
        ("\"a\\n\"", "position 4: expected `\"` or `\\` after `\\`, found `n`"),
        (&*deep, "position 65: expected fewer groups within groups, found `(`"),
    ] {
        let error = Filter::parse(filter).expect_err(filter);
        assert_eq!(error.to_string(), message, "{filter}");
    }
}

#[test]
fn filters_that_need_later_records_say_so() {
    for (filter, expected) in
        [("took:>1s", true), ("a | -(b is:late)", true), ("kind:error", false)]
    {
        let filter = Filter::parse(filter).expect("it is well-formed");
        assert_eq!(filter.needs_facts(), expected, "{filter}");
    }
}

fn values<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(value, 1..4)
}

fn compare(ops: std::ops::Range<usize>) -> impl Strategy<Value = Compare> {
    let value = prop_oneof![0..4000_u64, any::<u64>(), (0..500_u64).prop_map(|it| it * 1_000_000)];
    (ops, value).prop_map(|(op, value)| Compare { op: OPS[op].1, value })
}

fn term() -> impl Strategy<Value = Term> {
    let text = || prop_oneof!["[a-z*:|\"() \\\\-]{0,6}", "(-?kind:)?[a-zé]{0,4}", any::<String>()];
    let literal = text().prop_map(|text| Pattern(vec![text]));
    let stars = prop::collection::vec("[a-z/$-]{0,4}", 2..4).prop_map(Pattern);
    // A pattern with stars must not look like a term.
    prop_oneof![
        values(prop_oneof![literal, stars]).prop_map(Term::Method),
        values(prop::sample::select(&DIRS[..])).prop_map(Term::Dir),
        values(prop::sample::select(&KINDS[..])).prop_map(Term::Kind),
        values(text()).prop_map(Term::Id),
        values(compare(0..4)).prop_map(Term::Took),
        values(compare(0..4)).prop_map(Term::At),
        values(compare(0..5)).prop_map(Term::Seq),
        values(compare(0..4)).prop_map(Term::Size),
        values(text()).prop_map(Term::Text),
        values(prop::sample::select(&STATES[..])).prop_map(Term::Is),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    term().prop_map(Expr::Term).prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::all),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::any),
            inner.prop_map(|inner| Expr::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    #[test]
    fn r1_a_printed_filter_is_the_same_after_parsing(expr in expr()) {
        let printed = Filter(expr.clone()).to_string();
        prop_assert_eq!(Filter::parse(&printed), Ok(Filter(expr)), "{}", printed);
    }

    #[test]
    fn r1_any_text_is_a_filter_or_a_mistake(text in "[a-z:|()\"* <>0-9-]{0,24}|\\PC{0,12}") {
        match Filter::parse(&text) {
            Ok(filter) => {
                let printed = filter.to_string();
                prop_assert_eq!(Filter::parse(&printed), Ok(filter), "{}", printed);
            }
            Err(error) => prop_assert!(error.position <= text.chars().count()),
        }
    }
}
