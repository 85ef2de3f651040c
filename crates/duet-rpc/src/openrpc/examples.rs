//! Examples of calls in a document.

use serde_json::{Value, json};

use super::Document;

impl Document {
    /// Adds an example of a call: its params, by name or by position, and its result; `None` for a notification. The name
    /// is for people. Without a method of this name there is no example.
    ///
    /// ```
    /// # use serde_json::json;
    /// #[duet_rpc::service(openrpc)]
    /// trait Math {
    ///     async fn add(&self, a: i64, b: i64) -> i64;
    /// }
    ///
    /// let document = MathClient::openrpc()
    ///     .example("add", "two numbers", json!({"a": 1, "b": 2}), json!(3))
    ///     .example("add", "by position", json!([40, 2]), json!(42))
    ///     .to_value();
    /// let example = &document["methods"][0]["examples"][1];
    /// assert_eq!(example["params"], json!([{"name": "a", "value": 40}, {"name": "b", "value": 2}]));
    /// assert_eq!(example["result"], json!({"name": "result", "value": 42}));
    /// ```
    pub fn example(
        self,
        method: impl Into<String>,
        name: impl Into<String>,
        params: Value,
        result: impl Into<Option<Value>>,
    ) -> Self {
        let (method, name, result) = (method.into(), name.into(), result.into());
        self.edit(move |document| {
            let methods = document["methods"].as_array_mut();
            let found = methods.into_iter().flatten().find(|it| it["name"] == *method);
            let Some(found) = found else { return };
            let mut example = json!({"name": name, "params": pairs(found, &params)});
            if let Some(value) = &result {
                example["result"] = json!({"name": found["result"]["name"], "value": value});
            }
            match found["examples"].as_array_mut() {
                Some(examples) => examples.push(example),
                None => found["examples"] = json!([example]),
            }
        })
    }
}

/// The params with their names, in the order of the method.
fn pairs(method: &Value, params: &Value) -> Vec<Value> {
    let names = method["params"].as_array().into_iter().flatten();
    let names = names.map(|param| param["name"].as_str().unwrap_or_default());
    let value = |(at, name): (usize, &str)| match params {
        Value::Array(values) => Some((name.to_owned(), values.get(at)?.clone())),
        _ => Some((name.to_owned(), params.get(name)?.clone())),
    };
    let found = names.enumerate().filter_map(value);
    found.map(|(name, value)| json!({"name": name, "value": value})).collect()
}
