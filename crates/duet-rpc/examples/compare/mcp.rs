//! The counter of rmcp's example `counter_stdio`, on duet-rpc. docs/migrating.md compares the two.

use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use duet_rpc::proto::message::Params;
use duet_rpc::{Failure, Profile, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const FOLDER: &str = "str:////home/ada/notes/";
const MEMO: &str = "memo://insights";

type Object = Map<String, Value>;

#[derive(Deserialize)]
struct Terms {
    a: i64,
    b: i64,
}

#[derive(Deserialize)]
struct ExamplePrompt {
    message: String,
}

#[derive(Deserialize)]
struct CounterAnalysis {
    goal: Goal,
    strategy: Option<String>,
}

/// The argument of a prompt. The protocol allows only strings, but some clients send numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Goal {
    Number(i64),
    Text(String),
}

#[derive(Default)]
struct Counter(AtomicI64);

#[duet_rpc::service]
impl Counter {
    #[rpc]
    fn initialize(&self) -> Value {
        json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"prompts": {}, "resources": {}, "tools": {}},
            "serverInfo": {"name": "counter", "version": env!("CARGO_PKG_VERSION")},
            "instructions": "A counter with tools to change it, and prompts about it.",
        })
    }

    #[rpc(notification, name = "notifications/initialized")]
    fn initialized(&self) {}

    #[rpc]
    fn ping(&self) -> Value {
        json!({})
    }

    #[rpc(name = "tools/list")]
    fn list_tools(&self) -> Value {
        let tool = |name: &str, description: &str, properties: Value| {
            let required: Vec<_> = properties.as_object().into_iter().flat_map(Map::keys).collect();
            let schema = json!({"type": "object", "properties": properties, "required": required});
            json!({"name": name, "description": description, "inputSchema": schema})
        };
        let number = json!({"type": "integer"});
        json!({"tools": [
            tool("increment", "Adds 1 to the counter", json!({})),
            tool("decrement", "Takes 1 off the counter", json!({})),
            tool("get_value", "Reads the counter", json!({})),
            tool("long_task", "Takes 10 seconds", json!({})),
            tool("say_hello", "Greets the client", json!({})),
            tool("echo", "Returns its arguments", json!({})),
            tool("sum", "Adds two numbers", json!({"a": number, "b": number})),
        ]})
    }

    #[rpc(name = "tools/call")]
    async fn call_tool(
        &self,
        name: String,
        #[rpc(default)] arguments: Object,
    ) -> Result<Value, Failure> {
        let text = match name.as_str() {
            "increment" => (self.0.fetch_add(1, Ordering::Relaxed) + 1).to_string(),
            "decrement" => (self.0.fetch_sub(1, Ordering::Relaxed) - 1).to_string(),
            "get_value" => self.0.load(Ordering::Relaxed).to_string(),
            "long_task" => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                "10 seconds are over".to_owned()
            }
            "say_hello" => "hello".to_owned(),
            "echo" => Value::Object(arguments).to_string(),
            "sum" => {
                let Terms { a, b } = read(&arguments)?;
                a.checked_add(b).ok_or_else(|| Failure::new(-32001, "Overflow"))?.to_string()
            }
            _ => return Err(Failure::invalid_params("name", "the name of a tool", "string")),
        };
        Ok(json!({"content": [{"type": "text", "text": text}]}))
    }

    #[rpc(name = "prompts/list")]
    fn list_prompts(&self) -> Value {
        let argument = |name: &str, description: &str, required: bool| json!({"name": name, "description": description, "required": required});
        json!({"prompts": [
            {
                "name": "example_prompt",
                "description": "A prompt with one argument",
                "arguments": [argument("message", "The text of the prompt", true)],
            },
            {
                "name": "counter_analysis",
                "description": "Asks how to get the counter to a value",
                "arguments": [
                    argument("goal", "The value to reach", true),
                    argument("strategy", "`fast` or `careful`", false),
                ],
            },
        ]})
    }

    #[rpc(name = "prompts/get")]
    fn get_prompt(
        &self,
        name: String,
        #[rpc(default)] arguments: Object,
    ) -> Result<Value, Failure> {
        let message = |role: &str, text: String| json!({"role": role, "content": {"type": "text", "text": text}});
        match name.as_str() {
            "example_prompt" => {
                let ExamplePrompt { message: said } = read(&arguments)?;
                Ok(json!({"messages": [message("user", format!("The message is: {said}"))]}))
            }
            "counter_analysis" => {
                let CounterAnalysis { goal, strategy } = read(&arguments)?;
                let not_a_number = |_| Failure::invalid_params("goal", "integer", "string");
                let goal = match goal {
                    Goal::Number(goal) => goal,
                    Goal::Text(goal) => goal.parse().map_err(not_a_number)?,
                };
                let value = self.0.load(Ordering::Relaxed);
                let strategy = strategy.as_deref().unwrap_or("careful");
                let question = format!(
                    "The counter is at {value} and should be at {goal}, {} away. The strategy is \
                     {strategy}. What are the next steps?",
                    i128::from(goal) - i128::from(value)
                );
                Ok(json!({
                    "description": format!("The way from {value} to {goal}"),
                    "messages": [
                        message("assistant", "I look at the counter first.".to_owned()),
                        message("user", question),
                    ],
                }))
            }
            _ => Err(Failure::invalid_params("name", "the name of a prompt", "string")),
        }
    }

    #[rpc(name = "resources/list")]
    fn list_resources(&self) -> Value {
        json!({"resources": [{"uri": FOLDER, "name": "folder"}, {"uri": MEMO, "name": "memo"}]})
    }

    #[rpc(name = "resources/templates/list")]
    fn list_resource_templates(&self) -> Value {
        json!({"resourceTemplates": []})
    }

    #[rpc(name = "resources/read")]
    fn read_resource(&self, uri: String) -> Result<Value, Failure> {
        let text = match uri.as_str() {
            FOLDER => "/home/ada/notes/",
            MEMO => "Memo\n\nFive insights, and how they came about.",
            _ => {
                let failure = Failure::new(-32002, "Resource not found");
                return Err(failure.with_data(json!({"uri": uri})));
            }
        };
        Ok(json!({"contents": [{"uri": uri, "text": text}]}))
    }
}

/// Reads the arguments of a tool or prompt. The error names the argument that does not fit.
fn read<T: DeserializeOwned>(arguments: &Object) -> Result<T, Failure> {
    let arguments = serde_json::to_string(arguments)?;
    Ok(params::read(&Params::Object(&arguments))?)
}

fn main() -> ExitCode {
    duet_rpc::serve(Profile::mcp(), Counter::default().into_router())
}

#[cfg(test)]
mod tests {
    use duet_rpc::{Error, Peer, Profile, transport::memory};
    use serde_json::{Value, json};

    use super::{Counter, FOLDER};

    #[tokio::test(start_paused = true)]
    async fn p7_it_serves_tools_prompts_and_resources() -> Result<(), Error> {
        let (here, there) = memory::pair();
        let router = Counter::default().into_router();
        let _server = Peer::builder(there).profile(Profile::mcp()).router(router).spawn();
        let agent = Peer::builder(here).profile(Profile::mcp()).spawn();

        let rows = [
            ("increment", json!({}), "1"),
            ("increment", json!({}), "2"),
            ("decrement", json!({}), "1"),
            ("get_value", json!({}), "1"),
            ("long_task", json!({}), "10 seconds are over"),
            ("say_hello", json!({}), "hello"),
            ("echo", json!({"a": [1]}), r#"{"a":[1]}"#),
            ("sum", json!({"a": 2, "b": 3}), "5"),
        ];
        for (name, arguments, text) in rows {
            let params = json!({"name": name, "arguments": arguments});
            let answer: Value = agent.call("tools/call", params).await?;
            assert_eq!(answer["content"][0]["text"], text, "{name}");
        }
        let tools: Value = agent.call("tools/list", ()).await?;
        assert_eq!(tools["tools"].as_array().map(Vec::len), Some(7));
        assert_eq!(tools["tools"][6]["inputSchema"]["required"], json!(["a", "b"]));

        let params = json!({"name": "counter_analysis", "arguments": {"goal": "7"}});
        let prompt: Value = agent.call("prompts/get", params).await?;
        assert_eq!(prompt["description"], "The way from 1 to 7");

        let read: Value = agent.call("resources/read", json!({"uri": FOLDER})).await?;
        assert_eq!(read["contents"][0]["text"], "/home/ada/notes/");
        let params = json!({"name": "sum", "arguments": {"a": 2, "b": "3"}});
        let wrong = agent.call::<Value>("tools/call", params).await.expect_err("b is a text");
        let data = wrong.remote().and_then(|error| error.data.as_ref()).map(|data| data.get());
        assert_eq!(data, Some(r#"{"param":"b","expected":"integer","received":"string"}"#));
        let wrong = agent.call::<Value>("resources/read", json!({"uri": "a"})).await;
        let wrong = wrong.expect_err("there is no such resource");
        assert_eq!(wrong.remote().map(|error| error.code), Some(-32002));
        Ok(())
    }
}
