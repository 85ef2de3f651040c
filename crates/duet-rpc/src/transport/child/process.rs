//! A program that leaves nothing behind, also when nobody closes it.

use std::thread;
use std::time::Duration;

use tokio::process::Child;

/// How often one looks whether a program that was killed is gone.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Kills a program when it is dropped, if it still runs, and waits for it.
///
/// The runtime would wait for it too, but not one that is itself going down, which is when most
/// programs are dropped: what was killed then would stay on the system's table of processes for as
/// long as this process lives.
pub(super) struct Process(Option<Child>);

impl Process {
    pub(super) fn new(child: Child) -> Self {
        Process(Some(child))
    }

    /// It is there until this is dropped.
    pub(super) fn get(&mut self) -> Option<&mut Child> {
        self.0.as_mut()
    }

    /// Its id, as long as it has not been waited for.
    pub(super) fn id(&self) -> Option<u32> {
        self.0.as_ref().and_then(Child::id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take().filter(|child| child.id().is_some()) else { return };
        // It fails only if the program has ended.
        let _ = child.start_kill();
        // One that the system itself holds on to may take long to die, so it is not waited for
        // here. Without a thread it is left to the runtime.
        let wait = move || {
            while let Ok(None) = child.try_wait() {
                thread::sleep(LOOK_EVERY);
            }
        };
        let _ = thread::Builder::new().name("duet-rpc child".to_owned()).spawn(wait);
    }
}
