//! Errors inside the process: rules E1, E2 and E3.

mod links;

use std::collections::HashMap;
use std::error::Error as _;
use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use duet_rpc::proto::message::{Code, Id, write_error};
use duet_rpc::{Error, ErrorKind, Failure, Router, panic_guard};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Value, json};

const ALL: [ErrorKind; 14] = [
    ErrorKind::Handler,
    ErrorKind::Panic,
    ErrorKind::Params,
    ErrorKind::OneWay,
    ErrorKind::Remote,
    ErrorKind::Protocol,
    ErrorKind::Timeout,
    ErrorKind::Cancelled,
    ErrorKind::Capacity,
    ErrorKind::Exchange,
    ErrorKind::Interrupted,
    ErrorKind::Connect,
    ErrorKind::Transport,
    ErrorKind::Disconnected,
];

#[test]
fn e2_a_panic_becomes_an_internal_error_and_the_next_call_works() {
    let error = panic_guard::catch(|| panic!("CANARY")).expect_err("the closure panics");
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert_eq!(error.to_object().code(), Code::INTERNAL_ERROR);
    assert!(!format!("{error} {error:?} {}", error.to_object()).contains("CANARY"));
    assert_eq!(panic_guard::catch(|| 7).expect("nothing panics"), 7);
}

#[test]
fn e2_a_future_that_panics_is_ready_with_an_error() {
    let mut cx = Context::from_waker(Waker::noop());
    let mut panics = pin!(panic_guard::catch_future(async { panic!("CANARY") }));
    let Poll::Ready(Err::<(), _>(error)) = panics.as_mut().poll(&mut cx) else {
        panic!("the future should be ready with an error");
    };
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(panics.as_mut().poll(&mut cx).is_pending(), "the future stays pending");
    let mut works = pin!(panic_guard::catch_future(ready(7)));
    assert!(matches!(works.as_mut().poll(&mut cx), Poll::Ready(Ok(7))));
}

#[test]
fn e2_a_panic_in_a_destructor_is_caught() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("CANARY");
        }
    }
    let bomb = Bomb;
    let mut future = pin!(panic_guard::catch_future(std::future::poll_fn(move |_| {
        let _held = &bomb;
        Poll::Ready(())
    })));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(future.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
    let bomb = Bomb;
    drop(panic_guard::catch_future(async move {
        let _held = bomb;
        std::future::pending::<()>().await;
    }));
    let error = panic_guard::catch(|| std::panic::panic_any(Bomb)).expect_err("the closure panics");
    assert_eq!(error.kind(), ErrorKind::Panic);
}

#[test]
fn e3_an_error_keeps_its_causes_its_request_and_whether_to_retry_across_threads() {
    let root = std::io::Error::other("root");
    let inner = Error::new(ErrorKind::Transport).caused_by(root);
    let outer = Error::new(ErrorKind::Handler).caused_by(inner).of_request(Id::from("x"));
    let outer = std::thread::spawn(move || outer).join().expect("nothing panics");
    assert_eq!(outer.id(), Some(&Id::from("x")));
    assert!(outer.is_recoverable());
    let inner = outer.source().and_then(|cause| cause.downcast_ref::<Error>());
    let inner = inner.expect("the cause is kept, with its type");
    assert!(!inner.is_recoverable());
    assert_eq!(inner.source().map(ToString::to_string).as_deref(), Some("root"));
    assert_eq!(inner.id(), None);
}

#[test]
fn e3_only_errors_of_a_lost_connection_are_fatal() {
    let fatal: Vec<_> = ALL.into_iter().filter(|kind| !kind.is_recoverable()).collect();
    assert_eq!(fatal, [ErrorKind::Connect, ErrorKind::Transport, ErrorKind::Disconnected]);
}

#[test]
fn e1_error_object_does_not_contain_the_cause() {
    for kind in ALL {
        let error = Error::new(kind).caused_by("CANARY").of_request(Id::from("CANARY"));
        assert!(!error.to_object().to_string().contains("CANARY"), "{kind:?}");
        assert!(format!("{error:#}").contains("CANARY"), "but the log may have it");
    }
}

#[test]
fn e1_application_error_keeps_its_code_message_and_data() {
    let plain = Failure::new(-32001, "Overdrawn");
    assert_eq!((plain.object().code(), plain.object().message()), (Code(-32001), "Overdrawn"));
    let written = |failure: &Failure| {
        let mut text = Vec::new();
        write_error(&mut text, &Id::from("x"), failure.object());
        serde_json::from_slice::<Value>(&text).expect("the data is JSON")["error"].take()
    };
    assert_eq!(written(&plain), json!({"code": -32001, "message": "Overdrawn"}));
    let told = plain.caused_by("CANARY").with_data(json!({"by": 5}));
    let expected = json!({"code": -32001, "message": "Overdrawn", "data": {"by": 5}});
    assert_eq!(written(&told), expected);
    assert!(told.cause().is_some(), "the log still has it");
    // A map whose keys are not strings cannot be written.
    let odd = Failure::new(1, "x").with_data(HashMap::from([((1, 2), 3)]));
    assert_eq!(odd.object().code(), Code::INTERNAL_ERROR);
}

/// A caller's view of an error that the remote returned.
async fn refused() -> Error {
    let refuse = async || Err::<(), _>(Failure::new(-32001, "Overdrawn").with_data("CANARY"));
    let (client, _server) = links::client_of(Router::new().method("withdraw", refuse));
    client.call::<()>("withdraw", ()).await.expect_err("the call fails")
}

#[tokio::test]
async fn e3_display_and_debug_show_the_code_and_the_message_that_the_remote_answered() {
    let error = refused().await;
    let shown = "the remote answered with an error (request 1): Overdrawn (-32001)";
    assert_eq!((error.to_string(), format!("{error:#}")), (shown.to_owned(), shown.to_owned()));
    // It is shown once, even by code that prints the sources too.
    assert!(error.source().is_none());
    assert_eq!(error.remote().map(|remote| remote.code), Some(-32001));
    let debug = format!("{error:?}");
    assert!(debug.contains("-32001") && debug.contains("Overdrawn"), "{debug}");
    assert!(!debug.contains("CANARY"), "the data is the application's: {debug}");
    let outer = Error::new(ErrorKind::Handler).caused_by(error);
    assert_eq!(outer.to_string(), "a handler failed");
    assert_eq!(format!("{outer:#}"), format!("a handler failed: {shown}"));
}

/// An even number, or an error.
struct Even;

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        if number % 2 == 0 { Ok(Even) } else { Err(D::Error::custom(format!("{number} is odd"))) }
    }
}

#[expect(dead_code, reason = "the type is only deserialised")]
#[derive(Deserialize)]
struct Page {
    items: Vec<Item>,
}

#[expect(dead_code, reason = "the type is only deserialised")]
#[derive(Deserialize)]
struct Item {
    uri: String,
    even: Option<Even>,
}

#[tokio::test]
async fn e3_a_result_of_the_wrong_type_says_which_member_and_why() {
    let rows = [
        (json!(7), "result: expected object, received number"),
        (json!({}), "result.items: expected array, received missing"),
        (
            json!({"items": [{"uri": "a"}, {"uri": 7}]}),
            "result.items[1].uri: expected string, received number",
        ),
        (json!({"items": [{}]}), "result.items[0].uri: expected string, received missing"),
        (
            json!({"items": [{"uri": "a", "even": 3}]}),
            "result.items[0].even: expected a valid value, received number (3 is odd)",
        ),
    ];
    let router = Router::new().method("echo", async |(value,): (Value,)| Ok::<_, Failure>(value));
    let (client, _server) = links::client_of(router);
    for (result, why) in rows {
        let error =
            client.call::<Page>("echo", [&result]).await.err().expect("the result does not fit");
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let why = format!("the result is not of the expected type: {why}");
        assert_eq!(error.source().map(ToString::to_string), Some(why), "{result}");
    }
}
