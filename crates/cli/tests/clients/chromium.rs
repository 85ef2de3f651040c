//! A real browser over TLS: pages of an allowed origin and of a foreign one.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::certified::Certified;
use super::skip;
use super::support::browser::Browser;
use super::support::daemon::HANG;
use super::support::listening::Server;

const TOKEN: &str = "k3qhx7";

/// A web server with one page, which reports its outcomes to it.
struct PageServer {
    listener: TcpListener,
    origin: String,
}

impl PageServer {
    fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        PageServer { listener, origin }
    }

    /// Serves the page until the test ends. Returns the reports.
    fn serve(self, page: String) -> Receiver<String> {
        let (tell, reports) = channel();
        thread::spawn(move || {
            for stream in self.listener.incoming().map_while(Result::ok) {
                // A browser opens connections that it does not use, so each has its thread.
                let (page, tell) = (page.clone(), tell.clone());
                thread::spawn(move || {
                    if let Ok(Some(report)) = respond(&stream, &page) {
                        let _ = tell.send(report);
                    }
                });
            }
        });
        reports
    }
}

/// Answers one request. Returns its report, if it is one.
fn respond(mut stream: &TcpStream, page: &str) -> io::Result<Option<String>> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let target = first.split(' ').nth(1).unwrap_or_default();
    let (status, body) = if target == "/" { ("200 OK", page) } else { ("404 Not Found", "") };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    Ok(target.strip_prefix("/report?").map(str::to_owned))
}

#[test]
fn t3_t5_a_browser_calls_over_tls_from_an_allowed_origin_and_from_no_other() {
    let Some(browser) = Browser::find() else {
        return skip("a page over TLS", "no browser is installed");
    };
    let certified = Certified::new();
    let tokens = certified.folder.write("tokens", format!("ada:{TOKEN}\n"));
    let (allowed, foreign) = (PageServer::bind(), PageServer::bind());
    let mut options = vec!["--token-file", &tokens, "--allow-origin", &allowed.origin];
    options.extend(certified.options());
    let server =
        Server::testbed("agent", &["https://127.0.0.1:0/", "wss://127.0.0.1:0/"], &options);
    let page = include_str!("page.html")
        .replace("HTTPS_URL", &server.url("https").text)
        .replace("WSS_URL", &server.url("wss").text)
        .replace("TOKEN", TOKEN);
    for (pages, expected) in [
        (allowed, "pong,401,event.event.answer,pong.mcp,refused"),
        (foreign, "refused,refused,refused,refused,refused"),
    ] {
        let url = format!("{}/", pages.origin);
        let reports = pages.serve(page.clone());
        // Only a person can have it trust an authority.
        let _browser = Browser::open(browser, &url, &["--ignore-certificate-errors"]);
        let report = reports.recv_timeout(HANG).expect("the page reports");
        assert_eq!(report, expected, "{url}");
    }
    server.stop();
}
