//! HTTP: a service for `axum`, `hyper` and other web servers.
//!
//! [`service`] serves a router inside another web server. A [`Hub`](crate::Hub) with a
//! [`Listener`](crate::transport::Listener) at an `http://` address serves it on a socket of its own.

pub use crate::net::{HttpBody, HttpService, ResponseFuture, service};
