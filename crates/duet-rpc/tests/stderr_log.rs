//! The log of a server without a `tracing` subscriber (G1, L8): this program starts itself as the server,
//! because a process can install a subscriber only once.

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    match std::env::var_os(process::ROLE) {
        Some(_) => process::server(),
        None => process::client(),
    }
}

#[cfg(unix)]
mod process {
    use std::io::{Read, Write};
    use std::process::{Command, ExitCode, Stdio};

    use duet_rpc::{Failure, OrInternal, Profile, Router};

    pub(super) const ROLE: &str = "DUET_RPC_TEST_ROLE";

    /// More lines than a pipe holds.
    const MANY: usize = 20_000;

    pub(super) fn server() -> ExitCode {
        let router = Router::new()
            .method("panic", async || -> i64 { panic!("secret") })
            .method("fail", async || {
                Err::<i64, _>(std::io::Error::other("disk full")).or_internal()
            })
            .method("refuse", async || Err::<i64, _>(Failure::new(1001, "Overdrawn")))
            .method("guarded", async || 1)
            .guard(|message| match message.method() {
                "guarded" => Err(Failure::new(1002, "Log in first")),
                _ => Ok(()),
            })
            .method("work", async || 1);
        duet_rpc::serve(Profile::agent(), router)
    }

    pub(super) fn client() -> ExitCode {
        g1_failures_and_panics_are_printed();
        g5_errors_that_the_application_answers_on_purpose_are_not_printed();
        l8_a_stderr_that_nobody_reads_does_not_stop_the_server();
        ExitCode::SUCCESS
    }

    fn start() -> std::process::Child {
        let mut command = Command::new(std::env::current_exe().expect("the test has a path"));
        command.env(ROLE, "server");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// The requests of a session. Each has its own id, because an id in use is refused.
    fn requests(methods: &[&str]) -> String {
        let request =
            |(id, method)| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}\n");
        methods.iter().enumerate().map(request).collect()
    }

    fn g1_failures_and_panics_are_printed() {
        let mut server = start();
        let requests = requests(&["panic", "fail", "work", "\\u001b[31m"]);
        server
            .stdin
            .take()
            .expect("a pipe")
            .write_all(requests.as_bytes())
            .expect("the remote reads");
        let output = server.wait_with_output().expect("the process can be waited for");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let line = |method: &str| {
            let field = format!("(method \"{method}\"");
            said.lines().find(|line| line.contains(&field)).unwrap_or_else(|| panic!("{said}"))
        };
        assert!(line("panic").starts_with("error: handler failed"), "{said}");
        assert!(line("panic").contains("tests/stderr_log.rs:"), "{said}");
        assert!(line("fail").contains("disk full"), "{said}");
        assert!(!said.contains("secret") && !said.contains('\u{1b}'), "{said}");
        assert!(!said.contains("work"), "{said}");
    }

    fn g5_errors_that_the_application_answers_on_purpose_are_not_printed() {
        let mut server = start();
        let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"refuse\"}\n";
        let requests = requests(&["refuse", "guarded"]) + notification;
        server
            .stdin
            .take()
            .expect("a pipe")
            .write_all(requests.as_bytes())
            .expect("the remote reads");
        let output = server.wait_with_output().expect("the process can be waited for");
        let (answers, said) = (output.stdout, String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&answers).lines().count(), 2, "{said}");
        // Only the log shows that a notification failed.
        let lines: Vec<_> = said.lines().collect();
        assert!(matches!(lines[..], [line] if line.ends_with("(method \"refuse\")")), "{said}");
    }

    fn l8_a_stderr_that_nobody_reads_does_not_stop_the_server() {
        let mut server = start();
        let (mut stdin, mut stdout) =
            (server.stdin.take().expect("a pipe"), server.stdout.take().expect("a pipe"));
        let writer = std::thread::spawn(move || {
            let requests = requests(&vec!["fail"; MANY]);
            stdin.write_all(requests.as_bytes()).expect("the remote reads");
        });
        let mut answers = String::new();
        stdout.read_to_string(&mut answers).expect("the answers are text");
        writer.join().expect("the writer thread does not panic");
        assert_eq!(answers.lines().count(), MANY);
        assert!(server.wait().expect("the process can be waited for").success());
    }
}
