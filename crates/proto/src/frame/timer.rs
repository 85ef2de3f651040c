//! Read timer: limits the time that a frame takes to arrive.

use std::time::{Duration, Instant};

use super::Partial;

/// Counts from a frame's first byte to its last.
///
/// Call [`observe`](ReadTimer::observe) with the decoder's [`partial`](super::Decoder::partial)
/// after each read and each timeout. When [`deadline`](ReadTimer::deadline) has passed and no byte
/// waits to be read, call [`Decoder::handle_timeout`](super::Decoder::handle_timeout).
/// [`pause`](ReadTimer::pause) it while you do not read because the remote does not read.
///
/// ```
/// use std::time::{Duration, Instant};
/// use duet_rpc_proto::{Limits, frame::{Decoder, Framing, ReadTimer}};
///
/// let (mut decoder, now) = (Decoder::new(Framing::Ndjson, &Limits::default()), Instant::now());
/// let mut timer = ReadTimer::new(Some(Duration::from_secs(30)));
/// assert_eq!(decoder.feed(b"{\"half\":"), 8);
/// assert!(decoder.next_event().is_none());
/// timer.observe(decoder.partial(), now);
/// assert_eq!(timer.deadline(), Some(now + Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadTimer {
    timeout: Option<Duration>,
    clock: Option<Clock>,
    paused_at: Option<Instant>,
}

/// The deadline of the frame with this serial.
#[derive(Clone, Copy, Debug)]
struct Clock {
    serial: u64,
    deadline: Instant,
}

impl ReadTimer {
    /// A timer. `None` turns it off.
    pub fn new(timeout: Option<Duration>) -> Self {
        ReadTimer { timeout, clock: None, paused_at: None }
    }

    /// Updates the timer with the frame that is being received.
    pub fn observe(&mut self, partial: Option<Partial>, now: Instant) {
        let serial_before = self.clock.map(|clock| clock.serial);
        self.clock = match (partial, self.timeout) {
            (Some(partial), Some(timeout)) => match self.clock {
                Some(clock) if clock.serial == partial.serial => Some(clock),
                // No deadline, if it is beyond the range of the clock.
                _ => now
                    .checked_add(timeout)
                    .map(|deadline| Clock { serial: partial.serial, deadline }),
            },
            _ => None,
        };
        // A clock that starts while paused has not been paused before `now`.
        if self.clock.map(|clock| clock.serial) != serial_before && self.paused_at.is_some() {
            self.paused_at = Some(now);
        }
    }

    /// The deadline of the frame that is being received. `None` between frames, while paused and if
    /// off.
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.filter(|_| self.paused_at.is_none()).map(|clock| clock.deadline)
    }

    /// Stops the clock while nothing is read.
    pub fn pause(&mut self, now: Instant) {
        self.paused_at.get_or_insert(now);
    }

    /// Continues the clock from the point where it stopped.
    pub fn resume(&mut self, now: Instant) {
        if let Some(paused_at) = self.paused_at.take()
            && let Some(clock) = &mut self.clock
        {
            let paused = now.saturating_duration_since(paused_at);
            clock.deadline = clock.deadline.checked_add(paused).unwrap_or(clock.deadline);
        }
    }
}
