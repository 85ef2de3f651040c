//! Calls in both directions: an editor and its backend each serve a trait, over one connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duet_rpc::{
    Client, Context, Error, ErrorKind, Failure, FromContext, Peer, Profile, Router, RpcError,
};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use super::connect;

/// The methods of the editor.
#[duet_rpc::service(prefix = "ui/", rename_all = "camelCase")]
trait EditorUi {
    async fn ask(&self, question: String, choices: Option<Vec<String>>) -> Option<String>;

    /// Calls the backend back while the backend waits for the answer.
    #[rpc(name = "ui/nested")]
    async fn call_back(&self, cx: Context) -> Result<usize, Error>;

    #[rpc(notification)]
    async fn show_progress(&self, percent: u8);
}

/// The methods of the backend.
#[duet_rpc::service(callbacks = EditorUi)]
trait Backend {
    #[rpc(aliases("write", "store"))]
    async fn save(
        &self,
        ui: EditorUiClient,
        path: String,
        #[rpc(default = 3)] tries: usize,
    ) -> Result<usize, SaveError>;

    /// Never ends by itself. The test cancels it.
    async fn index(&self, cx: Context) -> ();

    async fn deep(&self, cx: Context, ui: EditorUiClient) -> Result<usize, Error>;

    async fn who(&self, suffix: String, #[rpc(context)] caller: Caller, cx: Context) -> String;

    #[rpc(quick)]
    fn saved(&self) -> usize;

    #[rpc(notification)]
    async fn touch(&self, path: String);
}

#[derive(Debug, PartialEq, RpcError)]
enum SaveError {
    #[rpc(code = 1001, message = "Refused by the user")]
    Refused { path: String, answer: Option<String> },
    #[rpc(code = 1002)]
    NoEditor,
}

/// An argument that the application makes from the context. It is never read from the params, although serde
/// could read it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Caller(String);

impl FromContext for Caller {
    fn from_context(cx: Context) -> Result<Self, Failure> {
        Ok(Caller(format!("caller of {}", cx.id().map(ToString::to_string).unwrap_or_default())))
    }
}

#[derive(Default)]
struct Disk {
    saved: AtomicUsize,
    touched: Mutex<Vec<String>>,
    begun: Arc<Notify>,
    dropped: Arc<Notify>,
}

/// Notifies the test when the handler is dropped.
struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Backend for Disk {
    async fn save(
        &self,
        ui: EditorUiClient,
        path: String,
        tries: usize,
    ) -> Result<usize, SaveError> {
        let answer = ui
            .ask(format!("Save {path}?"), Some(vec!["yes".to_owned(), "no".to_owned()]))
            .timeout(Duration::from_secs(20))
            .await
            .map_err(|_| SaveError::NoEditor)?;
        if answer.as_deref() != Some("yes") {
            return Err(SaveError::Refused { path, answer });
        }
        let _ = ui.show_progress(100).await;
        self.saved.fetch_add(1, Ordering::Relaxed);
        Ok(tries)
    }

    async fn index(&self, cx: Context) {
        let _dropped = OnDrop(Arc::clone(&self.dropped));
        assert!(cx.id().is_some(), "the message is a request");
        self.begun.notify_one();
        std::future::pending::<()>().await;
    }

    async fn deep(&self, cx: Context, ui: EditorUiClient) -> Result<usize, Error> {
        assert!(!cx.is_cancelled());
        ui.call_back().await
    }

    async fn who(&self, suffix: String, caller: Caller, cx: Context) -> String {
        assert!(cx.id().is_some());
        caller.0 + &suffix
    }

    fn saved(&self) -> usize {
        self.saved.load(Ordering::Relaxed)
    }

    async fn touch(&self, path: String) {
        self.touched.lock().expect("no panic").push(path);
    }
}

struct Window {
    answer: Option<&'static str>,
    progress: mpsc::UnboundedSender<u8>,
}

impl EditorUi for Window {
    async fn ask(&self, question: String, choices: Option<Vec<String>>) -> Option<String> {
        assert!(question.starts_with("Save "), "{question}");
        assert_eq!(choices.map(|choices| choices.len()), Some(2));
        self.answer.map(str::to_owned)
    }

    async fn call_back(&self, cx: Context) -> Result<usize, Error> {
        BackendClient::new(cx.peer()).saved().await
    }

    async fn show_progress(&self, percent: u8) {
        let _ = self.progress.send(percent);
    }
}

fn window(answer: Option<&'static str>) -> (Router, mpsc::UnboundedReceiver<u8>) {
    let (progress, seen) = mpsc::unbounded_channel();
    (Window { answer, progress }.into_router(), seen)
}

#[tokio::test]
async fn p7_a_service_and_its_callbacks_talk_both_ways_over_one_connection() {
    let (ui, mut progress) = window(Some("yes"));
    let (_server, peer) = connect(Disk::default().into_router(), ui);
    let backend = BackendClient::new(&peer);

    assert_eq!(backend.save("a.txt".to_owned(), 5).await.expect("the call is answered"), 5);
    assert_eq!(progress.recv().await, Some(100), "a notification to the editor");
    for alias in ["write", "store"] {
        let tries: usize = peer.call(alias, json!({"path": "b.txt"})).await.expect("an alias");
        assert_eq!(tries, 3, "the default");
    }
    assert_eq!(backend.saved().await.expect("a plain value"), 3);
    assert_eq!(backend.deep().await.expect("a call inside a call inside a call"), 3);
    let call = backend.who("!".to_owned());
    let expect = format!("caller of {}!", call.id());
    assert_eq!(call.await.expect("an argument from the context"), expect);
}

#[tokio::test]
async fn e4_a_typed_error_arrives_as_the_same_value() {
    let (ui, _progress) = window(None);
    let (_server, peer) = connect(Disk::default().into_router(), ui);
    let error = BackendClient::new(peer).save("a.txt".to_owned(), 1).await.expect_err("refused");
    let remote = error.remote().expect("the backend's");
    assert_eq!((remote.code, &*remote.message), (1001, "Refused by the user"));
    let refused = SaveError::Refused { path: "a.txt".to_owned(), answer: None };
    assert_eq!(error.as_remote::<SaveError>(), Some(refused));
}

#[tokio::test]
async fn p3_a_dropped_call_of_a_typed_client_drops_its_handler() {
    let disk = Disk::default();
    let (begun, dropped) = (Arc::clone(&disk.begun), Arc::clone(&disk.dropped));
    let (_server, peer) = connect(disk.into_router(), Router::new());
    let backend = BackendClient::new(peer);
    let call = tokio::spawn(backend.index());
    begun.notified().await;
    call.abort();
    tokio::time::timeout(Duration::from_secs(20), dropped.notified())
        .await
        .expect("the handler is dropped");
    let error = backend.index().timeout(Duration::from_millis(5)).await.expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn p7_a_notification_is_not_answered_and_keeps_its_order() {
    let disk = Arc::new(Disk::default());
    let (server, peer) = connect(Shared(Arc::clone(&disk)).into_router(), Router::new());
    let backend = BackendClient::new(&peer);
    for path in ["a", "b", "c"] {
        backend.touch(path.to_owned()).await.expect("the notification is sent");
    }
    // The profile's barrier order runs this call after the notifications.
    backend.saved().await.expect("the call is answered");
    assert_eq!(*disk.touched.lock().expect("no panic"), ["a", "b", "c"]);
    assert_eq!(peer.stats().unmatched_answers, 0);
    assert_eq!(server.stats().messages, 4);
}

/// A service whose state the test can inspect.
struct Shared(Arc<Disk>);

impl Backend for Shared {
    async fn save(
        &self,
        ui: EditorUiClient,
        path: String,
        tries: usize,
    ) -> Result<usize, SaveError> {
        self.0.save(ui, path, tries).await
    }

    async fn index(&self, cx: Context) {
        self.0.index(cx).await;
    }

    async fn deep(&self, cx: Context, ui: EditorUiClient) -> Result<usize, Error> {
        self.0.deep(cx, ui).await
    }

    async fn who(&self, suffix: String, caller: Caller, cx: Context) -> String {
        self.0.who(suffix, caller, cx).await
    }

    fn saved(&self) -> usize {
        self.0.saved()
    }

    async fn touch(&self, path: String) {
        self.0.touch(path).await;
    }
}

#[tokio::test]
async fn p6_a_typed_client_works_on_a_client_that_reconnects() {
    let connector = || async {
        let (here, there) = duet_rpc::transport::memory::pair();
        let (server, driver) = Peer::builder(there)
            .profile(Profile::agent())
            .router(Disk::default().into_router())
            .build();
        tokio::spawn(async move {
            driver.await;
            drop(server);
        });
        Ok(here)
    };
    let client =
        Client::builder(connector).profile(Profile::agent()).router(Router::new()).connect().await;
    let client = client.expect("the client connects");
    let backend = BackendClient::new(&client);
    assert_eq!(backend.saved().await.expect("the call is answered"), 0);
    backend.touch("a".to_owned()).await.expect("the notification is sent");
    client.close().await;
    let error = backend.saved().await.expect_err("the client is closed");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
}

/// Typed clients can be moved to other tasks and threads.
#[test]
fn p7_calls_and_notifications_of_a_typed_client_are_send() {
    fn is_send(_: impl Send) {}
    fn check(backend: &BackendClient) {
        is_send(backend.saved());
        is_send(backend.touch(String::new()));
        is_send(backend.clone());
    }
    let _ = check;
}
