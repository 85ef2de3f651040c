//! A list of all processes, made by one scan for all threads that ask meanwhile.
//!
//! A scan reads a file for each process. If many trees end together, such as the servers of clients that vanish at the
//! same time, and each tree made a scan of its own, the work would grow with the square of their number.
//!
//! | a thread asks while | it gets the list of |
//! |---|---|
//! | no scan runs | the scan that it makes |
//! | a scan runs | the next scan: the running one may have passed the processes that the thread looks for |
//!
//! The last list is kept while a tree exists, because the next scan takes over the environments that it knows.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use super::procfs::{self, ProcessEntry};
use crate::sync::lock;

/// The variable that marks a program and all processes that it starts. Its value is a list, because a
/// marked program may itself start and mark others.
pub(super) const VARIABLE: &str = "DUET_RPC_TREE";

/// A running process, and the value of [`VARIABLE`] in its environment once that has been read.
pub(super) struct RunningProcess {
    pub(super) entry: ProcessEntry,
    markers: Arc<OnceLock<Vec<u8>>>,
}

impl RunningProcess {
    /// A process whose environment was not read yet.
    pub(super) fn new(entry: ProcessEntry) -> Self {
        RunningProcess { entry, markers: Arc::default() }
    }

    /// Returns `true` if a tree with this marker started the process. An environment that cannot be read has none.
    pub(super) fn has_marker(&self, marker: &str) -> bool {
        let markers = self.markers.get().or_else(|| {
            let read = procfs::environment_value(self.entry.pid, VARIABLE)?;
            Some(self.markers.get_or_init(|| read))
        });
        markers.is_some_and(|all| all.windows(marker.len()).any(|part| part == marker.as_bytes()))
    }
}

/// All processes of one scan, newest first.
pub(super) struct Table(Vec<RunningProcess>);

impl Table {
    /// `None` if the processes cannot be listed.
    fn scan(last: Option<&Table>) -> Option<Table> {
        let with_known = |entry| {
            let known = last.and_then(|last| last.find(&entry));
            let markers = known.map(|process| Arc::clone(&process.markers)).unwrap_or_default();
            RunningProcess { entry, markers }
        };
        procfs::entries(0).map(|entries| Table(entries.map(with_known).collect()))
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, RunningProcess> {
        self.0.iter()
    }

    /// The same process, with the same program.
    fn find(&self, entry: &ProcessEntry) -> Option<&RunningProcess> {
        let place = self.0.binary_search_by(|process| entry.id().cmp(&process.entry.id())).ok()?;
        self.0.get(place).filter(|process| {
            process.entry.is(entry) && process.entry.environment == entry.environment
        })
    }
}

/// The scans of this process.
static SCANS: Scans = Scans { state: Mutex::new(ScanState::new()), ended: Condvar::new() };

struct Scans {
    state: Mutex<ScanState>,
    ended: Condvar,
}

struct ScanState {
    /// Number of scans that have begun, and the number of the last one that has ended.
    begun: u64,
    ended: u64,
    is_running: bool,
    /// Number of threads that wait for the end of a scan.
    waiting: usize,
    /// The list of the last scan that has ended.
    last: Option<Arc<Table>>,
    users: usize,
}

impl ScanState {
    const fn new() -> Self {
        ScanState { begun: 0, ended: 0, is_running: false, waiting: 0, last: None, users: 0 }
    }
}

/// Takes part in the scans of this process. The last list is kept while there is a user.
pub(super) struct ScanUser(());

impl ScanUser {
    pub(super) fn new() -> Self {
        lock(&SCANS.state).users += 1;
        ScanUser(())
    }

    /// The list of a scan that begins after this call; `None` if the processes cannot be listed.
    pub(super) fn scan(&self) -> Option<Arc<Table>> {
        SCANS.scan(Table::scan)
    }
}

impl Drop for ScanUser {
    fn drop(&mut self) {
        let mut state = lock(&SCANS.state);
        state.users -= 1;
        if state.users == 0 {
            state.last = None;
        }
    }
}

impl Scans {
    fn scan(&self, scan: impl FnOnce(Option<&Table>) -> Option<Table>) -> Option<Arc<Table>> {
        let mut state = lock(&self.state);
        let wanted = state.begun + 1;
        while state.is_running {
            state.waiting += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if state.ended >= wanted {
                return state.last.clone();
            }
        }
        state.is_running = true;
        state.begun += 1;
        let (number, last) = (state.begun, state.last.clone());
        drop(state);
        let running = EndOfScan(self);
        let table = scan(last.as_deref()).map(Arc::new);
        let mut state = lock(&self.state);
        state.ended = number;
        state.last.clone_from(&table);
        drop(state);
        drop(running);
        table
    }
}

/// Ends a scan when it is dropped, even by a panic.
struct EndOfScan<'a>(&'a Scans);

impl Drop for EndOfScan<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).is_running = false;
        self.0.ended.notify_all();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn scans() -> Scans {
        Scans { state: Mutex::new(ScanState::new()), ended: Condvar::new() }
    }

    #[test]
    fn t1_threads_that_ask_during_a_scan_share_the_next_one() {
        let (scans, count) = (scans(), AtomicUsize::new(0));
        let counted = |_: Option<&Table>| {
            count.fetch_add(1, Ordering::Relaxed);
            Some(Table(Vec::new()))
        };
        let (begun, has_begun) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let scans = &scans;
            scope.spawn(move || {
                scans.scan(|_| {
                    begun.send(()).expect("the test waits");
                    let _ = ends.recv();
                    None
                })
            });
            has_begun.recv().expect("it begins");
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(|| scans.scan(counted))).collect();
            while lock(&scans.state).waiting < threads.len() {
                thread::yield_now();
            }
            drop(end);
            for thread in threads {
                assert!(thread.join().expect("it does not panic").is_some());
            }
        });
        assert_eq!(count.into_inner(), 1);
        assert_eq!(lock(&scans.state).begun, 2);
    }

    #[test]
    fn t1_scan_that_panics_does_not_stop_the_next() {
        let scans = scans();
        thread::scope(|scope| {
            let panics = scope.spawn(|| scans.scan(|_| panic!("on purpose")));
            assert!(panics.join().is_err());
        });
        assert!(scans.scan(Table::scan).is_some());
    }

    #[test]
    fn t1_environment_is_read_once_for_each_program_of_a_process() {
        let first = Table::scan(None).expect("Linux lists processes");
        let own = |table: &Table| {
            let id = std::process::id();
            table.iter().position(|process| process.entry.id() == id).expect("it runs")
        };
        assert!(!first.0[own(&first)].has_marker("no such marker"));
        let second = Table::scan(Some(&first)).expect("Linux lists processes");
        let (first_own, second_own) = (&first.0[own(&first)], &second.0[own(&second)]);
        assert!(Arc::ptr_eq(&first_own.markers, &second_own.markers));
        let mut other = first_own.entry.clone();
        other.environment += 1;
        assert!(first.find(&other).is_none());
        assert!(first.find(&first_own.entry).is_some());
    }

    #[test]
    fn t1_list_is_kept_while_there_is_a_user() {
        let user = ScanUser::new();
        let table = user.scan().expect("Linux lists processes");
        assert!(table.iter().any(|process| process.entry.id() == std::process::id()));
        assert!(lock(&SCANS.state).last.is_some());
    }
}
