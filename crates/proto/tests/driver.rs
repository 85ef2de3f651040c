//! What a driver asks of a session besides its messages: requests that close, what is ready, and what a log may show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duet_rpc_proto::message::{Code, Id, Incoming};
use duet_rpc_proto::notice::Notice;
use duet_rpc_proto::policy::Order;
use duet_rpc_proto::session::{BatchKey, CallOptions, EventQueue, Handled, Key, Priority, Session};
use duet_rpc_proto::text::Text;
use duet_rpc_proto::{Limits, Profile};

/// What became of a message.
#[derive(Debug, PartialEq)]
enum Became {
    Parked(Key),
    Waiting,
    Refused(Code),
    Notice(Notice),
    Nothing,
}

struct Driven {
    session: Session<()>,
    /// The batch that what comes is a part of.
    batch: Option<BatchKey>,
    out: Vec<Vec<u8>>,
}

impl Driven {
    fn new(order: Order, limits: Limits) -> Self {
        let profile = Profile::agent().with(|it| {
            it.order = order;
            it.limits = limits;
        });
        Driven { session: Session::new(&profile), batch: None, out: Vec::new() }
    }

    /// Handles `method` or `method#id`; what starts is parked.
    fn handle(&mut self, word: &str) -> Became {
        let json = match word.split_once('#') {
            Some((method, id)) => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#),
            None => format!(r#"{{"jsonrpc":"2.0","method":"{word}"}}"#),
        };
        self.handle_text(if word.starts_with('{') { word } else { &json })
    }

    fn handle_text(&mut self, json: &str) -> Became {
        let profile = *self.session.profile();
        let text = Text::check(json.as_bytes(), 128).expect("tests send JSON");
        let message = Incoming::classify(&text, profile.batch, &profile.limits);
        match self.session.handle(&message, self.batch, Instant::now(), &mut self.out) {
            Handled::Start(job) => Became::Parked(self.session.park(job)),
            Handled::Waits(_) => Became::Waiting,
            Handled::Refused(reply) => Became::Refused(reply.error.code()),
            Handled::Notice(notice) => Became::Notice(notice),
            _ => Became::Nothing,
        }
    }

    fn parked(&mut self, word: &str) -> Key {
        match self.handle(word) {
            Became::Parked(key) => key,
            other => panic!("{word}: {other:?}"),
        }
    }
}

fn in_flight(in_flight: usize) -> Limits {
    Limits::default().with(|it| it.in_flight = in_flight)
}

const ALL: [Order; 4] = [Order::Sequential, Order::Barrier, Order::Concurrent, Order::ByKey];

#[test]
fn p4_a_limit_of_no_request_in_flight_refuses_all_but_under_sequential_order() {
    for order in ALL {
        for most in [0, 1] {
            let begun = Driven::new(order, in_flight(most)).handle("ask#1");
            let is_begun = matches!(begun, Became::Parked(_));
            assert_eq!(is_begun, most > 0 || order == Order::Sequential, "{order:?} {most}");
        }
    }
}

#[test]
fn f7_a_request_that_is_begun_resets_the_fault_limit() {
    let mut it = Driven::new(Order::Barrier, Limits::default().with(|it| it.answered_faults = 1));
    assert_eq!(it.handle("{}"), Became::Refused(Code::INVALID_REQUEST));
    assert_eq!(it.handle("{}"), Became::Notice(Notice::Muted(1)));
    it.parked("ask#1");
    assert_eq!(it.handle("{}"), Became::Refused(Code::INVALID_REQUEST));
}

fn closing(order: Order, limits: Limits) -> Driven {
    let mut it = Driven::new(order, limits);
    it.session.set_closing(Arc::new(|method| method == "exit"));
    it
}

#[test]
fn p9_while_the_batches_of_all_connections_hold_too_much_only_a_closing_request_of_one_begins() {
    let busy = Became::Refused(Code::SERVER_BUSY);
    for order in ALL {
        let mut it = closing(order, Limits::default());
        let is_full = Arc::new(AtomicBool::new(true));
        let ask = Arc::clone(&is_full);
        it.session.set_others_fill_batches(Arc::new(move || ask.load(Ordering::Relaxed)));
        let running = it.parked("alone#1");
        assert!(it.session.finish(running).is_some(), "it is not in a batch");
        it.batch = Some(it.session.begin_batch());
        assert_eq!(it.handle("other#2"), busy, "{order:?}");
        it.session.hold(true);
        assert_eq!(it.handle("exit#3"), Became::Waiting, "{order:?}");
        it.session.hold(false);
        let (_job, message) = it.session.next_ready(&mut it.out).expect("it is not refused");
        assert_eq!(message.method(), "exit");
        is_full.store(false, Ordering::Relaxed);
        assert_ne!(it.handle("other#4"), busy, "{order:?}");
    }
}

#[test]
fn p4_a_request_that_closes_the_connection_is_never_refused_for_there_being_too_many() {
    let busy = Became::Refused(Code::SERVER_BUSY);
    for order in [Order::Barrier, Order::Concurrent, Order::ByKey] {
        let mut it = closing(order, in_flight(1));
        it.parked("park#1");
        assert_eq!(it.handle("other#2"), busy, "{order:?}");
        it.parked("exit#3");
        // It waits while requests are held, as all do.
        it.session.hold(true);
        assert_eq!(it.handle("other#4"), busy);
        assert_eq!(it.handle("exit#5"), Became::Waiting, "{order:?}");
    }
    // It waits behind what stands before it in its lane.
    let mut it = closing(Order::Barrier, in_flight(1));
    it.parked("park#1");
    assert_eq!(it.handle("change"), Became::Waiting);
    assert_eq!(it.handle("other#2"), busy);
    assert_eq!(it.handle("exit#3"), Became::Waiting);
    // Under sequential order it waits for its turn, though nothing more should.
    let mut it = closing(Order::Sequential, Limits::default().with(|it| it.waiting = 1));
    let terms = CallOptions::default();
    assert_eq!(it.session.call(Id::from(1), (), terms, Instant::now()), Ok(()));
    it.parked("park#1");
    assert_eq!(it.handle("other#2"), Became::Waiting);
    assert_eq!(it.handle("other#3"), busy);
    assert_eq!(it.handle("exit#4"), Became::Waiting);
}

#[test]
fn l8_what_is_let_go_is_ready_and_nothing_else_is() {
    let mut it = Driven::new(Order::Barrier, Limits::default());
    assert!(!it.session.has_ready());
    it.session.hold(true);
    assert_eq!(it.handle("a#1"), Became::Waiting);
    assert!(!it.session.has_ready(), "it is held");
    it.session.hold(false);
    assert!(it.session.has_ready());
    let (job, message) = it.session.next_ready(&mut it.out).expect("it is ready");
    assert_eq!((message.method(), job.id()), ("a", Some(&Id::from(1))));
    assert!(!it.session.has_ready());
    assert_eq!(format!("{message:?}"), "Message { params: Absent, .. }");
}

#[test]
fn m6_a_job_knows_whether_it_is_of_a_batch_and_a_key_whose_it_is() {
    let mut it = Driven::new(Order::Barrier, Limits::default());
    let batch = it.session.begin_batch();
    let text = Text::check(br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, 128).expect("JSON");
    let message = Incoming::classify(&text, it.session.profile().batch, &Limits::default());
    let handled = it.session.handle(&message, Some(batch), Instant::now(), &mut it.out);
    let Handled::Start(job) = handled else { panic!("{handled:?}") };
    assert!(job.is_in_batch());
    let key = it.session.park(job);
    assert_eq!(it.session.id_of(key), Some(&Id::from(1)));
    let notification = it.parked("n");
    assert_eq!(it.session.id_of(notification), None, "it has none");
    assert!(it.session.finish(key).is_some());
    assert_eq!(it.session.id_of(key), None, "it has ended");
}

#[test]
fn g6_debug_output_of_a_session_shows_how_much_is_under_way_and_not_what() {
    let mut it = Driven::new(Order::Barrier, Limits::default());
    it.parked("CANARY#1");
    let shown = format!("{:?}", it.session);
    assert!(!shown.contains("CANARY"), "{shown}");
    for part in ["phase: Open", "order: Barrier", "running: 1", "pending_calls: 0"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn p9_a_queue_of_events_is_empty_when_none_waits() {
    let mut queue = EventQueue::new(2, 100);
    assert!(queue.is_empty());
    queue.push(Priority::High, "one", 3);
    assert!(!queue.is_empty());
    assert!(queue.pop().is_some() && queue.is_empty());
}

#[test]
fn p5_a_session_is_idle_when_nothing_is_to_be_answered_and_clean_when_nothing_is_left() {
    let states = |it: &Driven| (it.session.is_idle(), it.session.is_clean());
    let mut it = Driven::new(Order::Barrier, Limits::default());
    assert_eq!(states(&it), (true, true));
    // Each of these alone.
    let running = it.parked("park#1");
    assert_eq!(states(&it), (false, false), "one runs");
    assert!(it.session.finish(running).is_some());
    it.session.hold(true);
    assert_eq!(it.handle("held#2"), Became::Waiting);
    assert_eq!(states(&it), (false, false), "one waits");
    it.session.hold(false);
    assert!(it.session.next_ready(&mut it.out).is_some());
    assert_eq!(states(&it), (true, true));
    let batch = it.session.begin_batch();
    assert_eq!(states(&it), (false, false), "a batch is not answered");
    it.session.end_batch(batch, &mut it.out);
    // A call of ours is nothing that is to be answered.
    let (id, now) = (Id::from(1), Instant::now());
    let timeout = Some(Duration::from_secs(1));
    for terms in [CallOptions::default(), CallOptions { timeout, progress: None }] {
        assert_eq!(it.session.call(id.clone(), (), terms, now), Ok(()));
        assert_eq!(states(&it), (true, false));
        assert!(it.session.cancel(&id, &mut it.out).is_some());
        assert_eq!(states(&it), (true, true));
    }
}

#[test]
fn p5_when_the_connection_is_gone_calls_count_until_each_was_told() {
    let mut it = Driven::new(Order::Barrier, Limits::default());
    for id in 1..=2 {
        let call = it.session.call(Id::from(id), (), CallOptions::default(), Instant::now());
        assert_eq!(call, Ok(()));
    }
    assert!(it.session.abandon().is_none(), "answers can still come");
    assert_eq!(it.session.handle_gone(), None);
    for left in [1, 0] {
        assert!(it.session.abandon().is_some());
        assert_eq!(it.session.pending_calls(), left);
    }
    assert!(it.session.abandon().is_none());
    assert!(it.session.is_clean());
}
