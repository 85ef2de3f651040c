//! What a frame means: requests, notifications, responses, and what is none of these.
//!
//! [`Incoming::classify`] holds all rules of what is a message. Nothing here knows how messages
//! are framed, and nothing here builds a tree of values: what is not needed stays raw text.

mod classify;
mod error;
mod id;
mod log_fields;
mod params;
mod params_de;
mod reply;
mod write;

pub use classify::{
    Batch, Incoming, InvalidResponse, InvalidResponseReason, Notification, Request, Response,
    Settled,
};
pub use error::{Code, ErrorObject, ParamProblem, Reason, ReceivedError};
pub use id::{Id, IdRef, is_obeyed, write_escape};
pub use log_fields::LogFields;
pub use params::Params;
pub use reply::Reply;
pub use write::{
    write_error, write_notification, write_raw_result, write_request, write_result,
    write_result_with,
};
