//! Daemons that listen (T2, T3), with connections in every state when the end comes.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::Kind;
use super::channel::in_shell;
use super::client::Client;
use super::daemon::Daemon;
use super::ending::Ending;
use super::frames::Framing;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "listen-signal", live: signal },
    Kind { name: "listen-running", live: running },
    Kind { name: "listen-jammed", live: jammed },
    Kind { name: "listen-killed", live: killed },
    Kind { name: "listen-folder-gone", live: folder_gone },
    Kind { name: "listen-in-use", live: in_use },
    Kind { name: "listen-odd-place", live: odd_place },
    Kind { name: "listen-all-closed", live: all_closed },
    Kind { name: "listen-broken-off", live: broken_off },
    Kind { name: "listen-few-files", live: few_files },
];

const SCHEMES: [&str; 4] = ["tcp", "unix", "ws", "http"];
const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// An address of a kind; a socket is in the folder of the life.
fn address(trial: &Trial<'_>, scheme: &str) -> String {
    match scheme {
        "unix" => format!("unix://{}", trial.path("socket").display()),
        "tcp" => "tcp://127.0.0.1:0".to_owned(),
        _ => format!("{scheme}://127.0.0.1:0/"),
    }
}

/// A command that listens there.
fn listening(trial: &Trial<'_>, mut command: Command, schemes: &[&str]) -> Command {
    for scheme in schemes {
        command.args(["--listen", &address(trial, scheme)]);
    }
    command
}

/// Starts it, and waits until it says where it listens.
fn start(
    trial: &mut Trial<'_>,
    command: Command,
    count: usize,
) -> io::Result<(Daemon, Vec<String>)> {
    trial.may_say.push("listening on ");
    let mut daemon = trial.start(command)?;
    let urls = wait_for_urls(trial, &mut daemon, count);
    Ok((daemon, urls))
}

fn wait_for_urls(trial: &mut Trial<'_>, daemon: &mut Daemon, count: usize) -> Vec<String> {
    let urls = |daemon: &Daemon| -> Vec<String> {
        let said = daemon.text();
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let told = whole.lines().filter_map(|line| line.strip_prefix("listening on "));
        told.map(str::to_owned).collect()
    };
    daemon.pump(trial.hang(), |daemon| urls(daemon).len() >= count || daemon.ended.is_some());
    let urls = urls(daemon);
    trial.check(urls.len() >= count, "it does not say where it listens");
    urls
}

fn connect(trial: &Trial<'_>, url: &str) -> io::Result<Client> {
    Client::connect(url, Framing::of(trial.profile), trial.hang())
}

/// Some kinds of transports, at least one.
fn some_schemes(trial: &mut Trial<'_>) -> Vec<&'static str> {
    let first = *trial.random.pick(&SCHEMES);
    let others = SCHEMES.into_iter().filter(|&scheme| scheme != first);
    let schemes: Vec<_> =
        std::iter::once(first).chain(others.filter(|_| trial.random.once_in(3))).collect();
    trial.story.push(format!("listens on {schemes:?}"));
    schemes
}

/// Connections that are idle, silent, in the middle of a message, or gone.
fn crowd(trial: &mut Trial<'_>, urls: &[String]) -> io::Result<Vec<Client>> {
    let count = trial.random.below(12);
    let mut clients = Vec::new();
    for _ in 0..count {
        let url = trial.random.pick(urls).clone();
        let mut client = connect(trial, &url)?;
        match trial.random.below(4) {
            0 => trial.check(client.is_served(), format_args!("{url} does not serve")),
            1 => {
                let bytes = client.bytes_of(r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#);
                let cut = trial.random.below(bytes.len());
                client.send(&bytes[..cut])?;
            }
            2 => {}
            _ => {
                let bytes = client.bytes_of(r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#);
                client.send(&bytes)?;
                continue;
            }
        }
        clients.push(client);
    }
    trial.tell(format_args!("{count} connections, of which {} are open", clients.len()));
    Ok(clients)
}

/// Ends it with a signal; connections are closed, and the socket is gone.
fn end(trial: &mut Trial<'_>, daemon: &mut Daemon, clients: Vec<Client>) {
    let signal = *trial.random.pick(&SIGNALS);
    trial.end_by(daemon, signal);
    for _ in 0..trial.random.below(5) {
        let again = *trial.random.pick(&SIGNALS);
        daemon.signal(again);
    }
    trial.finish(daemon, &Ending::code(0));
    let is_open = |mut client: Client| !client.is_closed();
    let open = clients.into_iter().filter_map(|client| is_open(client).then_some(())).count();
    trial.check(open == 0, format_args!("{open} connections are open after the end"));
}

fn signal(trial: &mut Trial<'_>) -> io::Result<()> {
    let schemes = some_schemes(trial);
    let command = trial.command();
    let (mut daemon, urls) = start(trial, listening(trial, command, &schemes), schemes.len())?;
    if urls.is_empty() {
        return Ok(());
    }
    let clients = crowd(trial, &urls)?;
    end(trial, &mut daemon, clients);
    Ok(())
}

/// What runs and is soon done is answered before the end.
fn running(trial: &mut Trial<'_>) -> io::Result<()> {
    let schemes = some_schemes(trial);
    let command = trial.telling_testbed();
    let (mut daemon, urls) = start(trial, listening(trial, command, &schemes), schemes.len())?;
    let mut clients = Vec::new();
    for url in &urls {
        let mut client = connect(trial, url)?;
        let ms = 50 + trial.random.below(200);
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":3,"method":"test.sleep","params":{{"ms":{ms}}}}}"#);
        let bytes = client.bytes_of(&text);
        client.send(&bytes)?;
        clients.push(client);
    }
    let count = clients.len();
    let begun = |daemon: &Daemon| daemon.text().matches("test.sleep begins").count();
    let all = daemon.pump(trial.hang(), |daemon| begun(daemon) >= count);
    trial.check(all, "handlers do not begin");
    let signal = *trial.random.pick(&SIGNALS);
    trial.end_by(&mut daemon, signal);
    for (url, mut client) in urls.iter().zip(clients) {
        let answer = client.answer();
        let is_right =
            answer.as_ref().is_ok_and(|answer| answer["id"] == 3 && answer["result"].is_u64());
        trial.check(is_right, format_args!("{url} is answered with {answer:?}"));
    }
    trial.finish(&mut daemon, &Ending::code(0));
    Ok(())
}

/// Handlers that never end do not hold it up.
fn jammed(trial: &mut Trial<'_>) -> io::Result<()> {
    let schemes = some_schemes(trial);
    let command = trial.telling_testbed();
    let (mut daemon, urls) = start(trial, listening(trial, command, &schemes), schemes.len())?;
    let method = *trial.random.pick(&["test.sleep", "test.block", "test.spin", "test.jam"]);
    trial.tell(method);
    let Some(url) = urls.first() else { return Ok(()) };
    let mut client = connect(trial, url)?;
    let text = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{{"ms":60000}}}}"#);
    let bytes = client.bytes_of(&text);
    client.send(&bytes)?;
    let begins = format!("{method} begins");
    let has_begun = daemon.pump(trial.hang(), |daemon| daemon.has_said(&begins));
    trial.check(has_begun, "the handler does not begin");
    end(trial, &mut daemon, vec![client]);
    Ok(())
}

/// Its socket is left then, and the next daemon takes its place.
fn killed(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let (mut daemon, urls) = start(trial, listening(trial, command, &["unix"]), 1)?;
    if urls.is_empty() {
        return Ok(());
    }
    let _clients = crowd(trial, &urls)?;
    trial.may_leave.push("socket");
    trial.end_by(&mut daemon, Signal::KILL);
    trial.finish(&mut daemon, &Ending::killed(Signal::KILL));
    trial.may_leave.clear();
    trial.tell("and again");
    let command = trial.command();
    let (mut next, urls) = start(trial, listening(trial, command, &["unix"]), 1)?;
    let clients = crowd(trial, &urls)?;
    end(trial, &mut next, clients);
    Ok(())
}

/// The folder of its socket is not there any more.
fn folder_gone(trial: &mut Trial<'_>) -> io::Result<()> {
    let folder = trial.path("f");
    fs::create_dir(&folder)?;
    let mut command = trial.command();
    command.arg("--listen").arg(format!("unix://{}/socket", folder.display()));
    let (mut daemon, urls) = start(trial, command, 1)?;
    if urls.is_empty() {
        return Ok(());
    }
    let mut client = connect(trial, &urls[0])?;
    trial.tell("the folder is removed");
    fs::remove_dir_all(&folder)?;
    trial.check(client.is_served(), "a connection does not outlive the name of the socket");
    end(trial, &mut daemon, vec![client]);
    Ok(())
}

/// Says so, ends with 1, and leaves who is there alone.
fn in_use(trial: &mut Trial<'_>) -> io::Result<()> {
    let scheme = *trial.random.pick(&SCHEMES);
    let command = trial.command();
    let (mut first, urls) = start(trial, listening(trial, command, &[scheme]), 1)?;
    let Some(url) = urls.first() else { return Ok(()) };
    let mut command = trial.command();
    command.args(["--listen", url]);
    trial.tell(format_args!("{url} is in use"));
    let mut second = trial.start(command)?;
    trial.may_leave.push("socket");
    trial.finish(&mut second, &Ending::code(1));
    trial.check(second.has_said(url), "it does not say which address");
    trial.may_leave.clear();
    let is_served = connect(trial, url)?.is_served();
    trial.check(is_served, "who was there is not served any more");
    end(trial, &mut first, Vec::new());
    Ok(())
}

/// Where no socket can be: it says so and ends, and what is there stays.
fn odd_place(trial: &mut Trial<'_>) -> io::Result<()> {
    let folder = trial.folder.display().to_string();
    fs::write(trial.path("file"), "precious")?;
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
    let place = trial.random.pick(&places).clone();
    trial.tell(&place);
    let mut command = trial.command();
    command.args(["--listen", &place]);
    trial.may_leave.push("file");
    // A usage that makes no sense is told by more than a line.
    trial.may_say.extend(["error: ", "Usage: ", "For more information", "  "]);
    trial.may_say_nothing = true;
    let mut daemon = trial.start(command)?;
    trial.finish(&mut daemon, &Ending::code(1).or(2));
    let text = fs::read_to_string(trial.path("file"))?;
    trial.check(text == "precious", "a file was changed");
    Ok(())
}

/// It does not live on its standard descriptors.
fn all_closed(trial: &mut Trial<'_>) -> io::Result<()> {
    let schemes = some_schemes(trial);
    let command = trial.command();
    let (mut daemon, urls) = start(trial, listening(trial, command, &schemes), schemes.len())?;
    if urls.is_empty() {
        return Ok(());
    }
    trial.tell("stdin, stdout and stderr are closed");
    (daemon.stdin, daemon.stdout, daemon.stderr) = (None, None, None);
    let clients = crowd(trial, &urls)?;
    for url in &urls {
        let is_served = connect(trial, url)?.is_served();
        trial.check(is_served, format_args!("{url} does not serve any more"));
    }
    end(trial, &mut daemon, clients);
    Ok(())
}

/// Very many that come and break off, in the middle of whatever.
fn broken_off(trial: &mut Trial<'_>) -> io::Result<()> {
    let schemes = some_schemes(trial);
    let command = trial.command();
    let (mut daemon, urls) = start(trial, listening(trial, command, &schemes), schemes.len())?;
    if urls.is_empty() {
        return Ok(());
    }
    for _ in 0..60 {
        let url = trial.random.pick(&urls).clone();
        let mut client = connect(trial, &url)?;
        let bytes = client.bytes_of(r#"{"jsonrpc":"2.0","id":1,"method":"listMethods"}"#);
        let cut = trial.random.below(bytes.len() + 1);
        let _ = client.send(&bytes[..cut]);
        if trial.random.once_in(2) {
            client.break_off();
        }
    }
    for url in &urls {
        let is_served = connect(trial, url)?.is_served();
        trial.check(is_served, format_args!("{url} does not serve any more"));
    }
    daemon.pump(Duration::from_millis(1), |_| false);
    end(trial, &mut daemon, Vec::new());
    Ok(())
}

/// More who connect than there are descriptors: when they have gone, others are served.
fn few_files(trial: &mut Trial<'_>) -> io::Result<()> {
    let schemes = some_schemes(trial);
    let command = trial.command();
    let command = listening(trial, command, &schemes);
    let most = 24 + trial.random.below(60);
    trial.tell(format_args!("at most {most} descriptors"));
    let command = in_shell(format!(r#"ulimit -n {most}; exec "$@""#), &command);
    let (mut daemon, urls) = start(trial, command, schemes.len())?;
    if urls.is_empty() {
        return Ok(());
    }
    let mut clients = Vec::new();
    for _ in 0..100 {
        let url = trial.random.pick(&urls).clone();
        // One that is refused is as good.
        let short = Duration::from_millis(100);
        clients.extend(Client::connect(&url, Framing::of(trial.profile), short));
    }
    daemon.pump(Duration::from_millis(20), |_| false);
    drop(clients);
    let begun = std::time::Instant::now();
    let mut is_served = false;
    while !is_served && begun.elapsed() < trial.hang() {
        is_served = connect(trial, &urls[0]).is_ok_and(|mut client| client.is_served());
        daemon.pump(Duration::from_millis(2), |_| false);
    }
    trial.check(is_served, "it does not serve when there is room again");
    end(trial, &mut daemon, Vec::new());
    Ok(())
}
