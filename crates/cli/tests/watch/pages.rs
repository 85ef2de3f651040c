//! Every view, in a real browser.

use std::fs;

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::support::programs::root;
use super::{WatchServer, browse, traces};

#[test]
fn every_view_shows_a_known_trace() {
    let folder = Folder::new();
    folder.write("known.jsonl", traces::known());
    let server = WatchServer::start(&folder.path(""));
    browse("views.mjs", &[&server.url]);
    assert_eq!(server.stop(), Some(0));
}

/// A new user finds a slow request, a lost one and a stray print among 5,000 messages.
#[test]
fn slow_unanswered_and_stray_are_found_with_one_click_each() {
    let folder = Folder::new();
    let file = folder.write("long.jsonl", traces::long(5_000, 0, "2026-01-02T03:04:05.000000Z"));
    let server = WatchServer::start(file.as_ref());
    browse("search.mjs", &[&server.url]);
}

#[test]
fn a_hundred_thousand_records_scroll_within_400_mb() {
    let folder = Folder::new();
    folder.write("long.jsonl", traces::long(100_000, 0, "2026-01-02T03:04:05.000000Z"));
    let server = WatchServer::start(&folder.path(""));
    browse("large.mjs", &[&server.url, &server.pid().to_string()]);
}

#[test]
fn hostile_content_stays_inert() {
    let folder = Folder::new();
    folder.write("hostile.jsonl", traces::hostile());
    let server = WatchServer::start(&folder.path(""));
    browse("hostile.mjs", &[&server.url]);
}

/// A session that runs, a file that is deleted, a page that is closed, a server that is started again.
#[test]
fn the_page_follows_files_and_the_server_outlives_the_page() {
    let folder = Folder::new();
    // This process stands for the recorder: it is alive.
    let trace = traces::TraceText::new("live", "2026-01-02T03:04:05.000000Z", std::process::id());
    folder.write("live.jsonl", trace.into_text());
    browse("live.mjs", &[DUET_RPC, &folder.text("")]);
}

#[test]
fn a_killed_tap_leaves_lost_requests_and_a_closed_page_leaves_the_tap_alone() {
    let folder = Folder::new();
    let server = WatchServer::start(&folder.path(""));
    browse("tap.mjs", &[DUET_RPC, &server.url, &folder.text("")]);
}

/// `scripts/screenshots` runs it.
#[test]
#[ignore = "writes the screenshots of docs/watch"]
fn screenshots() {
    let folder = Folder::new();
    let start = "2026-01-02T03:04:05.000000Z";
    folder.write("long.jsonl", traces::long(5_000, 0, start));
    let server = WatchServer::start(&folder.path(""));
    let output = root().join("docs/watch");
    fs::create_dir_all(&output).expect("a folder");
    browse("screenshots.mjs", &[&server.url, output.to_str().expect("a plain path")]);
}
