//! A first server: one typed method on stdin and stdout, and its test.

struct Voice;
#[duet_rpc::service]
impl Voice {
    pub fn shout(&self, text: String) -> String {
        text.to_uppercase()
    }
}

fn main() -> std::process::ExitCode {
    duet_rpc::serve(duet_rpc::Profile::agent(), Voice.into_router())
}

#[tokio::test]
async fn it_shouts() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"shout","params":{"text":"hello"}}"#;
    let answer = Voice.into_router().handle(call).await.expect("a call has an answer");
    assert_eq!(answer, br#"{"jsonrpc":"2.0","id":1,"result":"HELLO"}"#);
}
