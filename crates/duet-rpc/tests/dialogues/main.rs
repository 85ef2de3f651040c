//! Two peers of the library over every transport: the same dialogues, with the same outcome (T1, P1, P3, P5).
//! One transport is a child process, so this program also runs itself as a child. It has no test harness,
//! because a harness prints to stdout.

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod links;
#[cfg(unix)]
mod script;

#[cfg(unix)]
fn main() {
    if std::env::var_os(links::ROLE).is_some() {
        return links::serve_stdio();
    }
    // Some handlers panic on purpose.
    duet_rpc::panic_guard::silence_hook();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        for link in links::LINKS {
            let time = std::time::Duration::from_secs(60);
            let dialogues = tokio::time::timeout(time, script::speak(link));
            dialogues.await.unwrap_or_else(|_| panic!("over {link} it hangs"));
            eprintln!("the dialogues over {link} ... ok");
        }
    });
}
