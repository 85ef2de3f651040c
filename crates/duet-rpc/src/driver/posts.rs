//! What the handles want, and what handlers elsewhere have made.

use std::time::Instant;

use duet_rpc_proto::message::{Code, ErrorObject, write_raw_result};
use duet_rpc_proto::session::{Key, Phase};

use super::core::Core;
use super::records;
use crate::error::{Error, ErrorKind};
use crate::handler::Outcome;
use crate::shared::Post;

impl Core {
    #[inline]
    pub(super) fn take_mail(&mut self, now: Instant) {
        self.session.set_callers_waiting(self.shared.has_callers_waiting());
        while self.shared.has_mail() {
            let mut posts = std::mem::take(&mut self.posts);
            self.shared.take_mail(&mut posts);
            for post in posts.drain(..) {
                self.handle_post(post, now);
            }
            self.posts = posts;
        }
    }

    fn handle_post(&mut self, post: Post, now: Instant) {
        match post {
            Post::Call { id, message, caller, terms, since } => {
                match self.session.call(id, caller, terms, since.unwrap_or(now)) {
                    Ok(()) => self.outbox.push(&message),
                    Err(caller) => {
                        let error = match self.session.phase() {
                            Phase::Open => Error::new(ErrorKind::Capacity),
                            _ => self.shared.closed_error(),
                        };
                        // Who has gone does not need to know.
                        let _ = caller.send(Err(error));
                    }
                }
            }
            Post::Cancel(id) => {
                if self.session.cancel(&id, &mut self.outbox).is_some() {
                    self.transport.handle_abandoned(&id);
                }
            }
            Post::Notify(message) => self.outbox.push(&message),
            Post::Ended(key, outcome) => self.finish(key, outcome),
            Post::Close(asked_by) => {
                self.session.close(asked_by, now, &mut self.outbox);
                self.publish_phase();
            }
            Post::Event => self.has_events = true,
            Post::Caller => {}
            Post::TrialOver => self.trial = None,
        }
    }

    fn finish(&mut self, key: Key, outcome: Option<Outcome>) {
        let origin = self.tasks.remove(key);
        let method = origin.as_ref().map(|origin| &*origin.entry.name);
        let logged_at = origin.as_ref().and_then(|origin| origin.logged_at);
        let job = self.session.finish(key);
        let id = job.as_ref().and_then(|job| job.id().filter(|_| logged_at.is_some()).cloned());
        let error = match (job, outcome) {
            (Some(job), Some(Ok(result))) => {
                let answer = self.session.answer(job, &mut self.outbox, |out, id| {
                    let result = std::str::from_utf8(&result).map_err(|error| {
                        Error::new(ErrorKind::Handler).caused_by(error).of_request(id.clone())
                    })?;
                    write_raw_result(out, id, result);
                    Ok::<_, Error>(())
                });
                answer.err().map(|error| {
                    records::cannot_write(&error, method);
                    Code::INTERNAL_ERROR.0
                })
            }
            (Some(job), Some(Err(failure))) => {
                Some(self.fail(job, failure, method.unwrap_or_default()).0)
            }
            // Its runtime is going down, and it with it.
            (Some(job), None) => {
                self.session.answer_error(job, &ErrorObject::internal_error(), &mut self.outbox);
                Some(Code::INTERNAL_ERROR.0)
            }
            // It was answered when it was cancelled.
            (None, outcome) => {
                if let Some(Err(failure)) = outcome {
                    records::failed_in_vain(failure, method);
                }
                return;
            }
        };
        records::end(method.unwrap_or_default(), id.as_ref(), logged_at, error);
    }

    /// Whether events wait, and there is room for one.
    pub(super) fn can_send_events(&self) -> bool {
        self.has_events && !self.is_crowded()
    }

    /// Moves events to the outbox while there is room.
    pub(super) fn send_events(&mut self) {
        if !self.can_send_events() {
            return;
        }
        let mut streams = self.shared.streams();
        // One event of each in turn, beginning behind the last: a stream that is never empty must
        // not keep the others from theirs.
        let first = self.next_stream.checked_rem(streams.len()).unwrap_or(0);
        streams.rotate_left(first);
        self.next_stream = first;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for stream in &streams {
                if self.is_crowded() {
                    return;
                }
                moved |= stream.send_one(&mut self.outbox);
                self.next_stream = self.next_stream.wrapping_add(1);
            }
        }
        self.has_events = false;
    }
}
