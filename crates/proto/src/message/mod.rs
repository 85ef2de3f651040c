//! Messages: requests, notifications, responses, batches and errors.
//!
//! [`Incoming::classify`] holds all rules that decide the kind of a message. This module does not
//! depend on framings and builds no tree of values: params and results stay raw text.

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
