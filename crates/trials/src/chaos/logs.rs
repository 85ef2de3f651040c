//! Log files that cannot be written (G1): the daemon keeps running in every case.

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    // A plain file holds only records.
    ("log-file", |t| {
        t.may_leave.push("log");
        serve(logging_to(t, "log"))?;
        let text = fs::read_to_string(t.path("log"))?;
        t.check(text.is_empty() || text.ends_with('\n'), "the last record in the file is cut");
        let is_record =
            |line: &str| line.starts_with("20") || line.starts_with('{') && line.ends_with('}');
        t.conclude(text.lines().all(is_record), "the file holds a line that is not a record")
    }),
    ("log-full-device", |t| serve(logging_to(t, "/dev/full"))),
    // A file system with almost no space.
    ("log-full-disk", |t| {
        t.need(t.world.can_mount, NO_MOUNT)?;
        fs::create_dir(t.path("disk"))?;
        t.may_leave.push("disk");
        let size = 4 * (1 + t.random.below(3));
        let script = format!(r#"mount -t tmpfs -o size={size}k none disk && exec "$@""#);
        serve(logging_to(t, "disk/log").shell(&script).wrap("unshare", &["-rm"]))
    }),
    // A file with a size limit.
    ("log-limited", |t| {
        t.may_leave.push("log");
        let blocks = t.random.below(4);
        serve(logging_to(t, "log").limit("-f", blocks))
    }),
    // A named pipe that nobody has opened, or that nobody reads.
    ("log-fifo", |t| {
        t.may_leave.push("log");
        let path = t.path("log");
        let is_made = Command::new("mkfifo").arg(&path).status()?.success();
        t.need(is_made, NO_FIFO)?;
        let is_open = t.random.once_in(2);
        t.tell(if is_open { "nobody reads it" } else { "nobody has opened it" });
        // Opening for both directions does not block.
        let open = || fs::OpenOptions::new().read(true).write(true).open(path);
        let _unread = is_open.then(open).transpose()?;
        serve(logging_to(t, "log"))
    }),
    // A file that is deleted while in use.
    ("log-deleted", |t| {
        logging_to(t, "log").start()?.greet()?;
        fs::remove_file(t.path("log"))?;
        t.traffic().close_stdin().finish(complete())
    }),
    ("log-directory", |t| serve(logging_to(t, "/"))),
    ("log-nowhere", |t| serve(logging_to(t, "no/such/folder/log"))),
];

/// The system decides this, so installing a program would not help.
const NO_MOUNT: Skipped =
    Skipped { why: "unshare cannot make a file system here", can_be_helped: false };
const NO_FIFO: Skipped = Skipped { why: "no named pipe can be made", can_be_helped: false };

/// Prepares a daemon with this log file, at debug level.
fn logging_to<'a, 'w>(t: &'a mut Trial<'w>, path: &str) -> &'a mut Trial<'w> {
    t.at_level("debug").env("DUET_RPC_LOG", path).tell(format_args!("the log goes to {path}"))
}

/// Checks that all requests are answered and the end is normal.
fn serve(t: &mut Trial<'_>) -> Lived {
    t.start()?.traffic().messages(30).end_either_way(Signal::TERM)
}
