//! Listening daemons (T2, T3), with connections in every state at the end.

use std::net::TcpListener;

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    ("listen-signal", |t| {
        let urls = start_some(t)?;
        let clients = connect_some(t, &urls)?;
        end(t, clients)
    }),
    // A running request that finishes soon is answered before the end.
    ("listen-running", |t| {
        let urls = start_some(t.telling())?;
        let mut clients = Vec::new();
        for url in &urls {
            let ms = 50 + t.random.below(200);
            clients.push(ask(t, url, "test.sleep", ms)?);
        }
        let begun = |daemon: &PipedDaemon| daemon.text().matches("test.sleep begins").count();
        let all = t.wait(|daemon| begun(daemon) >= clients.len());
        let signal = *t.check(all, "handlers do not begin").random.pick(&SIGNALS);
        t.end_by(signal);
        for (url, mut client) in urls.iter().zip(clients) {
            let answer = client.answer();
            let value: Value =
                serde_json::from_str(answer.as_deref().unwrap_or("")).unwrap_or_default();
            let is_right = value["id"] == 3 && value["result"].is_u64();
            t.check(is_right, format_args!("{url} is answered with {answer:?}"));
        }
        t.finish(Ending::code(0))
    }),
    // Handlers that never return do not delay the end.
    ("listen-jammed", |t| {
        let urls = start_some(t.telling())?;
        let method = *t.random.pick(&["test.sleep", "test.block", "test.spin", "test.jam"]);
        let client = ask(t.tell(method), &urls[0], method, 60_000)?;
        t.await_begin(method);
        end(t, vec![client])
    }),
    // A killed daemon leaves its socket, and the next daemon replaces it.
    ("listen-killed", |t| {
        let urls = start(listening(t, &[Transport::Unix]), 1)?;
        let _clients = connect_some(t, &urls)?;
        t.may_leave.push("socket");
        t.end_by(Signal::KILL).finish(Ending::killed(Signal::KILL))?;
        t.may_leave.clear();
        let urls = start(listening(t.tell("and again"), &[Transport::Unix]), 1)?;
        let clients = connect_some(t, &urls)?;
        end(t, clients)
    }),
    // The folder of the socket is removed.
    ("listen-folder-gone", |t| {
        let folder = t.path("f");
        fs::create_dir(&folder)?;
        let urls = start(t.with(&["--listen", &format!("unix://{}/socket", folder.display())]), 1)?;
        let mut client = connect(t, &urls[0], t.hang())?;
        t.tell("the folder is removed");
        fs::remove_dir_all(&folder)?;
        t.check(client.ping().is_ok(), "a connection does not outlive the name of the socket");
        end(t, vec![client])
    }),
    // A second daemon reports the address in use, exits with 1, and leaves the first alone.
    ("listen-in-use", |t| {
        let transport = *t.random.pick(&TRANSPORTS);
        let urls = start(listening(t, &[transport]), 1)?;
        let first = t.daemon.take();
        t.tell(format_args!("{} is in use", urls[0])).may_leave.push("socket");
        t.with(&["--listen", &urls[0]]).start()?.finish(Ending::code(1))?;
        let is_told = t.daemon().has_said(&urls[0]);
        t.check(is_told, "it does not say which address").may_leave.clear();
        t.daemon = first;
        check_served(t, &urls[..1])?;
        end(t, Vec::new())
    }),
    // An address where no socket can be: the daemon reports it and exits, and existing files stay.
    ("listen-bad-address", |t| {
        let folder = t.folder.display().to_string();
        fs::write(t.path("file"), "precious")?;
        let taken = TcpListener::bind("127.0.0.1:0")?;
        let port = taken.local_addr()?.port();
        let places = [
            format!("unix://{folder}/file"),
            format!("unix://{folder}"),
            format!("unix://{folder}/no/such/socket"),
            format!("unix://{folder}/{}", "x".repeat(200)),
            format!("tcp://127.0.0.1:{port}"),
            format!("ws://127.0.0.1:{port}/"),
            "tcp://192.0.2.1:1".to_owned(),
            "gopher://127.0.0.1/".to_owned(),
        ];
        let place = t.random.pick(&places).clone();
        t.tell(&place).may_leave.push("file");
        // A usage error takes more than one line.
        t.may_say.extend(["error: ", "Usage: ", "For more information", "  "]);
        t.may_say_nothing = true;
        t.with(&["--listen", &place]).start()?.finish(Ending::code(1).or(2))?;
        let text = fs::read_to_string(t.path("file"))?;
        t.conclude(text == "precious", "a file was changed")
    }),
    // A listening daemon does not depend on its standard descriptors.
    ("listen-all-closed", |t| {
        let urls = start_some(t)?;
        t.tell("stdin, stdout and stderr are closed").daemon().close_both();
        t.daemon().process.stderr = None;
        let clients = connect_some(t, &urls)?;
        check_served(t, &urls)?;
        end(t, clients)
    }),
    // Many clients connect and break off, at any point of a message.
    ("listen-broken-off", |t| {
        let urls = start_some(t)?;
        for _ in 0..60 {
            let url = t.random.pick(&urls).clone();
            let mut client = connect(t, &url, t.hang())?;
            let bytes = client.bytes_of(r#"{"jsonrpc":"2.0","id":1,"method":"listMethods"}"#);
            let _ = client.send(&bytes[..t.random.below(bytes.len() + 1)]);
            if t.random.once_in(2) {
                client.reset_on_drop();
            }
        }
        check_served(t, &urls)?;
        t.run_for(1);
        end(t, Vec::new())
    }),
    // More clients than descriptors: after they leave, others are served.
    ("listen-few-files", |t| {
        let most = 24 + t.random.below(60);
        let urls = start_some(t.limit("-n", most))?;
        let mut clients = Vec::new();
        for _ in 0..100 {
            let url = t.random.pick(&urls).clone();
            // The connection may be refused.
            clients.extend(connect(t, &url, Duration::from_millis(100)));
        }
        t.run_for(20);
        drop(clients);
        let is_served = is_served_again(t, &urls[0]);
        t.check(is_served, "it does not serve when there is room again");
        end(t, Vec::new())
    }),
];

const TRANSPORTS: [Transport; 4] =
    [Transport::Tcp, Transport::Unix, Transport::Ws, Transport::Http];
const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
const VERSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#;

/// Makes the next daemon listen on these transports; a Unix socket is in the folder of the life.
fn listening<'a, 'w>(t: &'a mut Trial<'w>, transports: &[Transport]) -> &'a mut Trial<'w> {
    for transport in transports {
        let url = transport.url(&t.folder).unwrap_or_default();
        t.with(&["--listen", &url]);
    }
    t
}

/// Starts the daemon on at least one transport. Returns its addresses.
fn start_some(t: &mut Trial<'_>) -> io::Result<Vec<String>> {
    let first = *t.random.pick(&TRANSPORTS);
    let others = TRANSPORTS.into_iter().filter(|&it| it != first);
    let others: Vec<_> = others.filter(|_| t.random.once_in(3)).collect();
    let transports = [vec![first], others].concat();
    listening(t.tell(format_args!("listens on {transports:?}")), &transports);
    start(t, transports.len())
}

/// Starts the daemon, and waits until it has printed this number of addresses.
pub(super) fn start(t: &mut Trial<'_>, count: usize) -> io::Result<Vec<String>> {
    t.may_say.push("listening on ");
    let urls = |daemon: &PipedDaemon| -> Vec<String> {
        let said = daemon.text();
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let told = whole.lines().filter_map(|line| line.strip_prefix("listening on "));
        told.map(str::to_owned).collect()
    };
    t.start()?.wait(|daemon| urls(daemon).len() >= count || daemon.has_ended());
    let urls = urls(t.daemon());
    t.check(urls.len() >= count, "it does not print its address");
    if urls.is_empty() { Err(io::Error::other("it does not listen")) } else { Ok(urls) }
}

fn connect(t: &Trial<'_>, url: &str, patience: Duration) -> io::Result<RawClient> {
    RawClient::connect(url, t.profile.framing(), patience)
}

/// Sends a request on a new connection, without waiting for the answer.
fn ask(t: &Trial<'_>, url: &str, method: &str, ms: usize) -> io::Result<RawClient> {
    let mut client = connect(t, url, t.hang())?;
    let head = format!(r#""jsonrpc":"2.0","id":3,"method":"{method}""#);
    let bytes = client.bytes_of(&format!(r#"{{{head},"params":{{"ms":{ms}}}}}"#));
    client.send(&bytes)?;
    Ok(client)
}

/// Checks that each address serves a new client.
fn check_served(t: &mut Trial<'_>, urls: &[String]) -> Lived {
    for url in urls {
        let served = connect(t, url, t.hang())?.ping();
        t.check(served.is_ok(), format_args!("{url} does not serve: {served:?}"));
    }
    Ok(())
}

/// Connects until a client is served. Clients may be refused before that.
pub(super) fn is_served_again(t: &mut Trial<'_>, url: &str) -> bool {
    let (begun, short) = (Instant::now(), Duration::from_secs(3).mul_f64(t.world.patience));
    while begun.elapsed() < t.hang() {
        t.run_for(2);
        if connect(t, url, short).is_ok_and(|mut client| client.ping().is_ok()) {
            return true;
        }
    }
    false
}

/// Opens connections that are idle, silent, in the middle of a message, or closed again.
fn connect_some(t: &mut Trial<'_>, urls: &[String]) -> io::Result<Vec<RawClient>> {
    let count = t.random.below(12);
    let mut clients = Vec::new();
    for _ in 0..count {
        let url = t.random.pick(urls).clone();
        let mut client = connect(t, &url, t.hang())?;
        match t.random.below(4) {
            0 => {
                let served = client.ping();
                t.check(served.is_ok(), format_args!("{url} does not serve: {served:?}"));
            }
            1 => {
                let bytes = client.bytes_of(VERSION);
                client.send(&bytes[..t.random.below(bytes.len())])?;
            }
            2 => {}
            _ => {
                let bytes = client.bytes_of(VERSION);
                client.send(&bytes)?;
                continue;
            }
        }
        clients.push(client);
    }
    t.tell(format_args!("{count} connections, of which {} are open", clients.len()));
    Ok(clients)
}

/// Ends the daemon with a signal, and checks that all connections are closed.
fn end(t: &mut Trial<'_>, clients: Vec<RawClient>) -> Lived {
    let signal = *t.random.pick(&SIGNALS);
    t.end_by(signal);
    for _ in 0..t.random.below(5) {
        let again = *t.random.pick(&SIGNALS);
        t.signal(again);
    }
    t.finish(Ending::code(0))?;
    let open = clients.into_iter().filter_map(|mut it| (!it.is_closed()).then_some(())).count();
    t.conclude(open == 0, format_args!("{open} connections are open after the end"))
}
