//! Parts of a session that drivers use besides its messages: closing requests, ready messages, and
//! debug output.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duet_rpc_proto::message::{Code, Id, Incoming};
use duet_rpc_proto::notice::Notice;
use duet_rpc_proto::policy::Order;
use duet_rpc_proto::session::{BatchKey, CallOptions, EventQueue, Handled, Key, Priority, Session};
use duet_rpc_proto::text::Text;
use duet_rpc_proto::{Limits, Profile};

/// The outcome of a message.
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
    /// The batch to which the next messages belong.
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

    /// Handles `method` or `method#id`, and parks a handler that starts.
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
fn p4_a_limit_of_zero_in_flight_refuses_all_requests_except_under_sequential_order() {
    for order in ALL {
        for most in [0, 1] {
            let begun = Driven::new(order, in_flight(most)).handle("ask#1");
            let is_begun = matches!(begun, Became::Parked(_));
            assert_eq!(is_begun, most > 0 || order == Order::Sequential, "{order:?} {most}");
        }
    }
}

#[test]
fn f7_a_request_that_starts_resets_the_fault_limit() {
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
fn p9_while_batches_of_all_connections_are_full_only_closing_requests_of_a_batch_start() {
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
fn p4_a_request_that_closes_the_connection_is_never_refused_as_busy() {
    let busy = Became::Refused(Code::SERVER_BUSY);
    for order in [Order::Barrier, Order::Concurrent, Order::ByKey] {
        let mut it = closing(order, in_flight(1));
        it.parked("park#1");
        assert_eq!(it.handle("other#2"), busy, "{order:?}");
        it.parked("exit#3");
        // It waits while requests are held, like all requests.
        it.session.hold(true);
        assert_eq!(it.handle("other#4"), busy);
        assert_eq!(it.handle("exit#5"), Became::Waiting, "{order:?}");
    }
    // It waits behind earlier messages of its lane.
    let mut it = closing(Order::Barrier, in_flight(1));
    it.parked("park#1");
    assert_eq!(it.handle("change"), Became::Waiting);
    assert_eq!(it.handle("other#2"), busy);
    assert_eq!(it.handle("exit#3"), Became::Waiting);
    // Under sequential order it waits for its turn, even over the limit on waiting messages.
    let mut it = closing(Order::Sequential, Limits::default().with(|it| it.waiting = 1));
    let terms = CallOptions::default();
    assert_eq!(it.session.call(Id::from(1), (), terms, Instant::now()), Ok(()));
    it.parked("park#1");
    assert_eq!(it.handle("other#2"), Became::Waiting);
    assert_eq!(it.handle("other#3"), busy);
    assert_eq!(it.handle("exit#4"), Became::Waiting);
}

#[test]
fn l8_only_released_messages_are_ready() {
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
fn m6_a_job_knows_its_batch_and_its_key_finds_the_id() {
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
fn g6_debug_output_of_a_session_shows_counts_and_no_content() {
    let mut it = Driven::new(Order::Barrier, Limits::default());
    it.parked("CANARY#1");
    let shown = format!("{:?}", it.session);
    assert!(!shown.contains("CANARY"), "{shown}");
    for part in ["phase: Open", "order: Barrier", "running: 1", "pending_calls: 0"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn p9_an_event_queue_is_empty_when_no_event_waits() {
    let mut queue = EventQueue::new(2, 100);
    assert!(queue.is_empty());
    queue.push(Priority::High, "one", 3);
    assert!(!queue.is_empty());
    assert!(queue.pop().is_some() && queue.is_empty());
}

#[test]
fn p5_a_session_is_idle_without_unanswered_messages_and_clean_without_leftovers() {
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
    // A call of ours needs no answer from us.
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
fn p5_after_the_connection_is_gone_each_call_counts_until_it_is_abandoned() {
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
