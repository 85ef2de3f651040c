use lsp_server::{Connection, ErrorCode, Message, Response};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (connection, threads) = Connection::stdio();
    connection.initialize(json!({"hoverProvider": true}))?;
    for message in &connection.receiver {
        let Message::Request(request) = message else { continue };
        if connection.handle_shutdown(&request)? {
            break;
        }
        let response = match request.method.as_str() {
            "textDocument/hover" => match request.params["position"]["line"].as_u64() {
                Some(line) => {
                    Response::new_ok(request.id, json!({"contents": format!("line {line}")}))
                }
                None => {
                    Response::new_err(request.id, ErrorCode::InvalidParams as i32, "no line".into())
                }
            },
            _ => Response::new_err(request.id, ErrorCode::MethodNotFound as i32, request.method),
        };
        connection.sender.send(response.into())?;
    }
    drop(connection);
    threads.join()?;
    Ok(())
}
