//! Taking the standard input and output (L9): this program starts itself as a child, because a process can
//! take them only once, and a test harness prints to stdout.

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    match std::env::var_os(taken::ROLE) {
        Some(_) => taken::server(),
        None => taken::client(),
    }
}

#[cfg(unix)]
mod taken {
    use std::future::poll_fn;
    use std::io::{ErrorKind, Write};
    use std::process::{Command, Stdio as Std};

    use duet_rpc::proto::Profile;
    use duet_rpc::proto::frame::Framing;
    use duet_rpc::proto::session::Sink;
    use duet_rpc::transport::{Inbox, Outbox, Received, Stdio, Transport, TransportKind};

    pub(super) const ROLE: &str = "DUET_RPC_TEST_ROLE";

    /// Reads only after its own child has tried to read.
    #[allow(clippy::print_stdout)]
    pub(super) fn server() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let mut stdio = Stdio::take().unwrap();
            println!("a stray print");
            assert!(Command::new("echo").arg("a stray child").status().unwrap().success());
            let stolen = Command::new("cat").stdin(Std::inherit()).output().unwrap();
            assert!(stolen.stdout.is_empty());
            assert_eq!(Stdio::take().unwrap_err().kind(), ErrorKind::ResourceBusy);

            let mut inbox = Inbox::new(TransportKind::Bytes, &Profile::agent());
            let mut received = 0;
            loop {
                let before = inbox.space().unwrap().len();
                match poll_fn(|cx| stdio.poll_receive(cx, &mut inbox)).await.unwrap() {
                    Received::Eof => break,
                    _ => received += inbox.space().unwrap().len() - before,
                }
            }
            let mut outbox = Outbox::new(Some(Framing::Ndjson));
            let answer = format!("{received}");
            let Ok::<(), std::convert::Infallible>(()) = outbox.send(|out| {
                out.extend_from_slice(answer.as_bytes());
                Ok(())
            });
            poll_fn(|cx| stdio.poll_send(cx, &mut outbox)).await.unwrap();
        });
    }

    pub(super) fn client() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, "server").stdin(Std::piped()).stdout(Std::piped()).stderr(Std::piped());
        let mut server = command.spawn().unwrap();
        server.stdin.take().unwrap().write_all(b"[1]\n[2]\n").unwrap();
        let output = server.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert_eq!(output.stdout, b"8\n");
        assert_eq!(errors, "a stray print\na stray child\n");
    }
}
