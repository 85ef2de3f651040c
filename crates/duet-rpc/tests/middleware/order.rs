//! Order of messages through middleware: random messages, checked against a model.
//!
//! Every handler and wrapper yields a random number of times. A journal records the beginning and the end of
//! the outermost wrapper. The model decides which messages must end before a message may begin.

use std::sync::{Arc, Mutex};

use duet_rpc::proto::policy::Order;
use duet_rpc::{Failure, Next, Profile, Request, Router};

use super::random::Random;
use super::remote;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Begins(usize),
    Ends(usize),
}

/// The number of a message, and the number of yields of each part.
type Params = (usize, [u64; 3]);

async fn pause(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

fn router(journal: &Arc<Mutex<Vec<Event>>>) -> Router {
    let journal = Arc::clone(journal);
    let note = move |request: Request, next: Next| {
        let journal = Arc::clone(&journal);
        async move {
            let (number, pauses): Params = request.params()?;
            journal.lock().expect("no panic").push(Event::Begins(number));
            pause(pauses[0]).await;
            let result = next.run(request).await;
            pause(pauses[1]).await;
            journal.lock().expect("no panic").push(Event::Ends(number));
            result
        }
    };
    let inner = Router::new()
        .method("do", async |(number, pauses): Params| {
            pause(pauses[2]).await;
            number
        })
        .method("fail", async |(_, pauses): Params| -> Result<(), Failure> {
            pause(pauses[2]).await;
            Err(Failure::new(-32001, "Failed"))
        })
        .wrap(async |request, next| next.run(request).await);
    Router::new().wrap(note).guard(|_| -> Result<(), Failure> { Ok(()) }).nest("", inner)
}

/// Returns `true` if a message may begin only after an earlier one has ended.
fn waits_for(order: Order, is_request: &[bool], later: usize, earlier: usize) -> bool {
    match order {
        Order::Sequential => true,
        // A notification ends before any later message begins.
        Order::Barrier => !is_request[earlier] && later > earlier,
        _ => false,
    }
}

#[tokio::test]
async fn l2_order_holds_through_middleware_in_random_interleavings() {
    for seed in 0..60 {
        for order in [Order::Sequential, Order::Barrier] {
            let mut random = Random::new(seed);
            let journal = Arc::<Mutex<Vec<Event>>>::default();
            let profile = Profile::agent().with(|it| it.order = order);
            let (_peer, mut remote) = remote::serve(&profile, router(&journal));
            let is_request: Vec<bool> = (0..40).map(|_| random.below(3) > 0).collect();
            for (number, is_request) in is_request.iter().enumerate() {
                let pauses = [(); 3].map(|()| random.below(4));
                let method = random.pick(&["do", "fail"]);
                let id = if *is_request { format!(r#""id":{number},"#) } else { String::new() };
                let params = serde_json::to_string(&(number, pauses)).expect("JSON");
                let message =
                    format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#);
                remote.send(&message).await;
                if random.once_in(5) {
                    pause(random.below(6)).await;
                }
            }
            // The last message. Its end in the journal shows that all have ended.
            remote.send(r#"{"jsonrpc":"2.0","method":"do","params":[40,[0,0,0]]}"#).await;
            let mut answered: Vec<_> = Vec::new();
            for _ in is_request.iter().filter(|it| **it) {
                answered.push(remote.next().await["id"].as_u64().expect("an id") as usize);
            }
            while journal.lock().expect("no panic").len() < 82 {
                tokio::task::yield_now().await;
            }
            check(order, &is_request, &journal.lock().expect("no panic"), seed);
            if order == Order::Sequential {
                assert!(answered.is_sorted(), "seed {seed}: {answered:?}");
            }
            answered.sort_unstable();
            let asked: Vec<_> = (0..40).filter(|number| is_request[*number]).collect();
            assert_eq!(answered, asked, "seed {seed}: each request is answered once");
        }
    }
}

fn check(order: Order, is_request: &[bool], journal: &[Event], seed: u64) {
    let place = |event: Event| journal.iter().position(|noted| *noted == event);
    for later in 0..40 {
        for earlier in 0..later {
            if waits_for(order, is_request, later, earlier) {
                let (ends, begins) = (place(Event::Ends(earlier)), place(Event::Begins(later)));
                assert!(ends < begins, "seed {seed}, {order:?}: {later} before {earlier} ended");
            }
        }
    }
    let count = |number| journal.iter().filter(|event| **event == Event::Begins(number)).count();
    assert!((0..40).all(|number| count(number) == 1), "seed {seed}: each message begins once");
}

#[tokio::test]
async fn l2_each_router_keeps_its_own_key_when_routers_are_combined() {
    /// The first of two messages takes longer than the second.
    async fn slow((_, number): (String, u64)) -> u64 {
        pause(if number == 1 { 50 } else { 0 }).await;
        number
    }
    fn keyed(router: Router) -> Router {
        router.ordered_by(|_, params| params.parse::<(String, u64)>().ok().map(|(key, _)| key))
    }
    fn keyless(router: Router) -> Router {
        router.ordered_by(|_, _| None::<u8>)
    }
    fn named(router: Router, name: &'static str) -> Router {
        router.ordered_by(move |method, _| (method == name).then_some(()))
    }
    let new = Router::new;
    let own = || new().method("m", slow);
    let rows = [
        ("own", "m", keyed(own()), true),
        ("none", "m", keyless(own()), false),
        ("own fallback", "m", keyed(new().fallback(slow)), true),
        ("merged", "m", new().merge(keyed(own())), true),
        ("merged fallback", "m", new().merge(keyed(new().fallback(slow))), true),
        (
            "merged fallback, and own key",
            "m",
            keyless(new().merge(keyed(new().fallback(slow)))),
            true,
        ),
        ("nested", "a/m", new().nest("a/", keyed(own())), true),
        ("nested fallback", "a/m", new().nest("a/", keyed(new().fallback(slow))), true),
        ("nested, then own key", "a/m", keyless(new().nest("a/", keyed(own()))), true),
        ("own key, then nested", "a/m", keyless(new()).nest("a/", keyed(own())), true),
        (
            "own key beside a merged one",
            "m",
            keyed(own()).merge(keyless(new().fallback(|| 0))),
            true,
        ),
        (
            "own method under the prefix",
            "a/own",
            keyed(new().method("a/own", slow)).nest("a/", keyless(own())),
            true,
        ),
        ("nested without a key", "a/m", keyed(new().nest("a/", own())), true),
        ("nested twice", "a/b/m", new().nest("a/", new().nest("b/", named(own(), "m"))), true),
        (
            "nested under a key",
            "a/b/m",
            new().nest("a/", named(new().nest("b/", own()), "b/m")),
            true,
        ),
        ("nested under a key that has none", "a/m", keyed(new().nest("a/", keyless(own()))), false),
    ];
    let profile = Profile::agent().with(|it| it.order = Order::ByKey);
    for (case, method, router, is_ordered) in rows {
        let (_peer, mut remote) = remote::serve(&profile, router);
        for number in [1, 2] {
            let params = format!(r#"["key",{number}]"#);
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{params}}}"#
            );
            remote.send(&message).await;
        }
        let answers =
            [remote.next().await["result"].clone(), remote.next().await["result"].clone()];
        let expected = if is_ordered { [1, 2] } else { [2, 1] };
        assert_eq!(answers, expected, "{case}");
    }
}
