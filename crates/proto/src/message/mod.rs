//! What a frame means: requests, notifications, responses, and what is none of these.
//!
//! [`Incoming::classify`] holds all rules of what is a message. Nothing here knows how messages
//! are framed, and nothing here builds a tree of values: what is not needed stays raw text.

mod classify;
mod error;
mod id;
mod params;
mod reply;
mod subject;
mod whole;
mod write;

pub use classify::{Batch, Incoming, Notification, Request, Response, Settled, Stray, WhyStray};
pub use error::{Code, ErrorObject, ParamProblem, Reason, ReceivedError};
pub use id::{Id, IdRef, is_obeyed, write_escape};
pub use params::Params;
pub use reply::Reply;
pub use subject::Subject;
pub use write::{
    write_error, write_notification, write_raw_result, write_request, write_result,
    write_result_with,
};
