//! Descriptions of the methods: for people, and for programs as an OpenRPC document (section 4).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::support::daemon::{framing_of, rpc};
use super::support::once::{Talk, talk};
use super::{PROFILES, requests};

const SIX: [&str; 6] =
    ["initialize", "listMethods", "describeMethods", "version", "setLogLevel", "shutdown"];
const DESKTOP: [&str; 5] =
    ["system.ping", "system.echo", "events.subscribe", "events.unsubscribe", "rpc.discover"];
const AGENT: [&str; 1] = ["system.callback"];

/// All methods of a profile.
pub(crate) fn methods_of(profile: &str) -> BTreeSet<&'static str> {
    let desktop = DESKTOP.into_iter().filter(|_| profile != "editor");
    let agent = AGENT.into_iter().filter(|_| profile == "agent");
    SIX.into_iter().chain(desktop).chain(agent).collect()
}

fn ask(profile: &str, methods: &[&str]) -> Talk {
    let calls: Vec<_> = methods.iter().map(|&method| (method, "")).collect();
    talk(rpc(&["--profile", profile]), framing_of(profile), &requests(&calls))
}

/// The entries of an array of objects.
fn entries(value: &Value) -> Vec<&Map<String, Value>> {
    let entries = value.as_array().expect("an array").iter();
    entries.map(|entry| entry.as_object().expect("an object")).collect()
}

fn names(value: &Value) -> Vec<&str> {
    entries(value).iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

/// The names of an object's members.
fn members(object: &Map<String, Value>) -> BTreeSet<&str> {
    object.keys().map(String::as_str).collect()
}

#[test]
fn c3_c4_each_profile_has_its_methods_and_lists_them_once() {
    for profile in PROFILES {
        let talk = ask(profile, &["listMethods", "describeMethods"]);
        for id in [1, 2] {
            let answer = talk.answer(id);
            let names = names(&answer["result"]);
            assert_eq!(names.len(), methods_of(profile).len(), "{profile}: {names:?}");
            assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), methods_of(profile));
        }
    }
}

#[test]
fn c4_a_method_exists_exactly_if_it_is_listed() {
    for profile in PROFILES {
        let calls: Vec<_> =
            methods_of("agent").into_iter().filter(|it| *it != "shutdown").collect();
        let talk = ask(profile, &calls);
        for (method, id) in calls.iter().zip(1..) {
            let missing = json!({"code": -32601, "message": format!("Method not found: {method}")});
            let is_missing = talk.answer(id)["error"] == missing;
            assert_eq!(!is_missing, methods_of(profile).contains(method), "{profile} {method}");
        }
    }
}

#[test]
fn c3_descriptions_have_the_right_shape() {
    for profile in PROFILES {
        let talk = ask(profile, &["listMethods", "describeMethods"]);
        let (listed, described) = (talk.answer(1), talk.answer(2));
        for entry in entries(&listed["result"]) {
            assert_eq!(members(entry), BTreeSet::from(["name", "description"]));
            let description = entry["description"].as_str().expect("a text");
            assert!(description.len() > 10, "{entry:?} has no description");
        }
        for entry in entries(&described["result"]) {
            assert_eq!(members(entry), BTreeSet::from(["name", "params", "returns"]));
            assert!(!entry["returns"].as_str().expect("a text").is_empty(), "{entry:?}");
            for param in entry["params"].as_array().expect("an array") {
                let (name, kind) =
                    param.as_str().and_then(|it| it.split_once(": ")).expect("`name: type`");
                assert!(!name.is_empty() && !kind.is_empty(), "{entry:?}");
            }
            if entry["name"] == "setLogLevel" {
                assert_eq!(entry["params"], json!(["level: string"]));
            }
        }
    }
}

#[test]
fn c4_discovery_gives_an_openrpc_document_of_the_same_methods() {
    for profile in ["desktop", "agent"] {
        let talk = ask(profile, &["rpc.discover", "describeMethods"]);
        let (document, described) = (talk.answer(1)["result"].clone(), talk.answer(2));
        let version = document["openrpc"].as_str().expect("a version");
        assert!(version.starts_with("1."), "{version}");
        assert!(document["info"]["title"].is_string(), "{profile}");
        assert_eq!(document["info"]["version"], "0.1.0");
        assert_eq!(names(&document["methods"]), names(&described["result"]), "{profile}");
        for (method, described) in
            entries(&document["methods"]).into_iter().zip(entries(&described["result"]))
        {
            check_descriptor(method["result"].as_object().expect("a result"));
            let params = entries(&method["params"]);
            let mut was_optional = false;
            for param in &params {
                check_descriptor(param);
                let is_required = param.get("required").is_some_and(|it| it == true);
                assert!(!(is_required && was_optional), "{method:?}: optional ones come last");
                was_optional = !is_required;
            }
            let names = names(&method["params"]);
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{method:?}");
            let words = described["params"].as_array().expect("an array").iter();
            let words = words.filter_map(|word| word.as_str()?.split([':', '?']).next());
            assert_eq!(names, words.collect::<Vec<_>>(), "{method:?}");
        }
    }
}

/// Named types stand in one place, for generated clients.
#[test]
fn c4_d1_discovery_shares_the_schemas_of_named_types() {
    let talk = ask("agent", &["rpc.discover"]);
    let document = &talk.answer(1)["result"];
    let schemas = document["components"]["schemas"].as_object().expect("an object");
    let text = document.to_string();
    for name in ["InitializeResult", "Level", "Topic", "Topics"] {
        assert!(schemas[name].is_object(), "{name}");
        assert!(text.contains(&format!("#/components/schemas/{name}")), "{name}");
    }
}

#[test]
fn c5_d4_discovery_describes_the_events_that_the_daemon_sends() {
    let talk = ask("desktop", &["rpc.discover"]);
    let document = &talk.answer(1)["result"];
    let [event] = &*entries(&document["x-client-methods"]) else {
        panic!("one method of the client")
    };
    assert_eq!((&event["name"], event.get("result")), (&json!("event"), None));
    assert_eq!(names(&event["params"]), ["topic", "sequence", "data", "dropped"]);
    let required: Vec<_> = entries(&event["params"]).iter().map(|it| &it["required"]).collect();
    assert_eq!(required, [true, true, true, false]);
}

/// A program that reads the document must not assume that there are no params.
#[test]
fn c4_discovery_marks_the_method_that_takes_any_params() {
    let talk = ask("agent", &["rpc.discover"]);
    for method in entries(&talk.answer(1)["result"]["methods"]) {
        let free = json!({"type": ["object", "array", "null"]});
        let expected = (method["name"] == "system.echo").then_some(&free);
        assert_eq!(method.get("x-params"), expected, "{method:?}");
    }
}

/// The document must match the schema in it.
#[test]
fn c4_discovery_matches_its_own_schema() {
    let talk = ask("desktop", &["rpc.discover"]);
    let document = &talk.answer(1)["result"];
    let mut methods = entries(&document["methods"]).into_iter();
    let itself =
        methods.find(|method| method["name"] == "rpc.discover").expect("the method is listed");
    let schemas = &document["components"]["schemas"];
    check_schema(schemas, &itself["result"]["schema"], document);
}

/// Checks that a value matches a schema, as far as our schemas go.
fn check_schema(schemas: &Value, schema: &Value, value: &Value) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/components/schemas/").expect("a named schema");
        return check_schema(schemas, &schemas[name], value);
    }
    match schema["type"].as_str() {
        None => assert_eq!(*schema, json!(true)),
        Some("string") => assert!(value.is_string(), "{value}"),
        Some("array") => {
            let items = value.as_array().expect("an array");
            items.iter().for_each(|item| check_schema(schemas, &schema["items"], item));
        }
        Some("object") => {
            for name in schema["required"].as_array().expect("an array") {
                let name = name.as_str().expect("a name");
                let member = value.get(name).unwrap_or_else(|| panic!("{name} is not there"));
                check_schema(schemas, &schema["properties"][name], member);
            }
        }
        Some(other) => panic!("an unexpected type: {other}"),
    }
}

/// Checks an OpenRPC content descriptor: a name and a schema.
fn check_descriptor(descriptor: &Map<String, Value>) {
    assert!(descriptor["name"].as_str().is_some_and(|name| !name.is_empty()), "{descriptor:?}");
    let schema = &descriptor["schema"];
    assert!(schema.is_object() || schema.is_boolean(), "{descriptor:?}");
}
