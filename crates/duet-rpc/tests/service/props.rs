//! Property tests: client and server agree on params of every shape, from the typed client and from handwritten
//! messages.

use std::future::Future;

use duet_rpc::{Call, Error, Peer, Router};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::connect;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Whole {
    number: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum Tag {
    Unit,
    Tuple(i64, bool),
    Struct { list: Vec<String> },
}

/// The params of the method `every`.
type Every = (i64, Option<String>, Tag, Option<Whole>, Vec<u8>, Option<bool>);

#[duet_rpc::service]
trait Named {
    async fn every(
        &self,
        a: i64,
        b: Option<String>,
        c: Tag,
        d: Option<Whole>,
        #[rpc(default = vec![1, 2])] e: Vec<u8>,
        #[rpc(default = Some(true))] f: Option<bool>,
    ) -> Every;
    async fn one(&self, a: Option<Whole>) -> Option<Whole>;
    async fn whole(&self, #[rpc(whole)] whole: Whole) -> Whole;
    async fn tuple(&self, #[rpc(whole)] pair: (i64, Option<String>)) -> (i64, Option<String>);
}

#[duet_rpc::service(positional, prefix = "by_position.")]
trait Positional {
    async fn every(
        &self,
        a: i64,
        b: Option<String>,
        c: Tag,
        d: Option<Whole>,
        #[rpc(default = vec![1, 2])] e: Vec<u8>,
        #[rpc(default = Some(true))] f: Option<bool>,
    ) -> Every;
    async fn options(
        &self,
        a: i64,
        b: Option<i64>,
        c: Option<i64>,
    ) -> (i64, Option<i64>, Option<i64>);
}

struct Mirror;

impl Named for Mirror {
    async fn every(
        &self,
        a: i64,
        b: Option<String>,
        c: Tag,
        d: Option<Whole>,
        e: Vec<u8>,
        f: Option<bool>,
    ) -> Every {
        (a, b, c, d, e, f)
    }
    async fn one(&self, a: Option<Whole>) -> Option<Whole> {
        a
    }
    async fn whole(&self, whole: Whole) -> Whole {
        whole
    }
    async fn tuple(&self, pair: (i64, Option<String>)) -> (i64, Option<String>) {
        pair
    }
}

impl Positional for Mirror {
    async fn every(
        &self,
        a: i64,
        b: Option<String>,
        c: Tag,
        d: Option<Whole>,
        e: Vec<u8>,
        f: Option<bool>,
    ) -> Every {
        (a, b, c, d, e, f)
    }
    async fn options(
        &self,
        a: i64,
        b: Option<i64>,
        c: Option<i64>,
    ) -> (i64, Option<i64>, Option<i64>) {
        (a, b, c)
    }
}

fn whole() -> impl Strategy<Value = Whole> {
    (any::<i64>(), any::<Option<String>>()).prop_map(|(number, text)| Whole { number, text })
}

fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![
        Just(Tag::Unit),
        (any::<i64>(), any::<bool>()).prop_map(|(number, flag)| Tag::Tuple(number, flag)),
        proptest::collection::vec(any::<String>(), 0..3).prop_map(|list| Tag::Struct { list }),
    ]
}

fn every() -> impl Strategy<Value = Every> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..4);
    (
        any::<i64>(),
        any::<Option<String>>(),
        tag(),
        proptest::option::of(whole()),
        bytes,
        any::<Option<bool>>(),
    )
}

/// A handwritten message: the optional params that it leaves out, and the order of the others.
#[derive(Clone, Debug)]
struct Hand {
    left_out: [bool; 6],
    rotated: usize,
    has_more: bool,
}

fn hand() -> impl Strategy<Value = Hand> {
    (any::<[bool; 6]>(), 0..6_usize, any::<bool>()).prop_map(|(left_out, rotated, has_more)| Hand {
        left_out,
        rotated,
        has_more,
    })
}

/// The values of the params that a message leaves out.
fn defaults() -> [Option<Value>; 6] {
    [None, Some(json!(null)), None, Some(json!(null)), Some(json!([1, 2])), Some(json!(true))]
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The params as an object, and the values that the method receives.
fn by_name(values: &[Value; 6], hand: &Hand) -> (Value, Value) {
    let (mut got, defaults) = (values.clone(), defaults());
    let mut members = Map::new();
    for step in 0..6 {
        let place = (step + hand.rotated) % 6;
        match &defaults[place] {
            Some(default) if hand.left_out[place] => got[place] = default.clone(),
            _ => drop(members.insert(NAMES[place].to_owned(), values[place].clone())),
        }
    }
    if hand.has_more {
        members.insert("more".to_owned(), json!([1]));
    }
    (members.into(), got.to_vec().into())
}

/// The params as an array without the last ones, and the values that the method receives.
fn by_position(values: &[Value; 6], hand: &Hand) -> (Value, Value) {
    let (mut got, defaults) = (values.clone(), defaults());
    let mut sent = values.to_vec();
    for place in (0..6).rev() {
        let Some(default) = defaults[place].clone().filter(|_| hand.left_out[place]) else { break };
        sent.pop();
        got[place] = default;
    }
    (sent.into(), got.to_vec().into())
}

async fn answer<T: serde::de::DeserializeOwned>(call: Call<T>) -> Result<T, TestCaseError> {
    call.await.map_err(|error: Error| TestCaseError::fail(format!("{error:#}")))
}

fn check<F: Future<Output = Result<(), TestCaseError>>>(
    run: impl FnOnce(Peer) -> F,
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        // `Mirror` implements two services.
        let (named, client) = connect(Named::into_router(Mirror), Router::new());
        let result = run(client).await;
        drop(named);
        result
    })
}

fn check_positional<F: Future<Output = Result<(), TestCaseError>>>(
    run: impl FnOnce(Peer) -> F,
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (positional, client) = connect(Positional::into_router(Mirror), Router::new());
        let result = run(client).await;
        drop(positional);
        result
    })
}

fn values(every: &Every) -> [Value; 6] {
    let (a, b, c, d, e, f) = every;
    [json!(a), json!(b), json!(c), json!(d), json!(e), json!(f)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn p7_client_and_server_agree_on_named_params(every in every(), hand in hand()) {
        check(async |peer| {
            let client = NamedClient::new(&peer);
            let (a, b, c, d, e, f) = every.clone();
            prop_assert_eq!(&answer(client.every(a, b, c, d, e, f)).await?, &every);
            for (params, expect) in [by_name(&values(&every), &hand), by_position(&values(&every), &hand)] {
                prop_assert_eq!(answer(peer.call::<Value>("every", &params)).await?, expect);
            }
            Ok(())
        })?;
    }

    #[test]
    fn p7_client_and_server_agree_on_positional_params(every in every(), hand in hand()) {
        check_positional(async |peer| {
            let client = PositionalClient::new(&peer);
            let (a, b, c, d, e, f) = every.clone();
            prop_assert_eq!(&answer(client.every(a, b, c, d, e, f)).await?, &every);
            for (params, expect) in [by_name(&values(&every), &hand), by_position(&values(&every), &hand)] {
                prop_assert_eq!(answer(peer.call::<Value>("by_position.every", &params)).await?, expect);
            }
            Ok(())
        })?;
    }

    #[test]
    fn p7_client_and_server_agree_on_trailing_options(a: i64, b: Option<i64>, c: Option<i64>) {
        check_positional(async |peer| {
            let client = PositionalClient::new(&peer);
            prop_assert_eq!(answer(client.options(a, b, c)).await?, (a, b, c));
            Ok(())
        })?;
    }

    #[test]
    fn p7_client_and_server_agree_on_whole_params(
        whole in whole(),
        option in proptest::option::of(whole()),
        pair: (i64, Option<String>),
    ) {
        check(async |peer| {
            let client = NamedClient::new(&peer);
            prop_assert_eq!(&answer(client.whole(whole.clone())).await?, &whole);
            prop_assert_eq!(&answer(peer.call::<Whole>("whole", &whole)).await?, &whole);
            prop_assert_eq!(&answer(client.one(option.clone())).await?, &option);
            prop_assert_eq!(&answer(peer.call::<Option<Whole>>("one", [&option])).await?, &option);
            prop_assert_eq!(&answer(client.tuple(pair.clone())).await?, &pair);
            prop_assert_eq!(&answer(peer.call::<(i64, Option<String>)>("tuple", &pair)).await?, &pair);
            Ok(())
        })?;
    }
}
