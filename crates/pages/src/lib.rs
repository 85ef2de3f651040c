//! Doc tests for the code in the documentation pages.
//!
//! This package is separate and never published. The published packages do not contain the pages, and their tests must
//! run without them.
#![cfg(doctest)]

#[doc = include_str!("../../../README.md")]
struct Readme;
#[doc = include_str!("../../../docs/axum.md")]
struct Axum;
#[doc = include_str!("../../../docs/calling.md")]
struct Calling;
#[doc = include_str!("../../../docs/cancelling.md")]
struct Cancelling;
#[doc = include_str!("../../../docs/framings.md")]
struct Framings;
#[doc = include_str!("../../../docs/identity.md")]
struct WhoIsCalling;
#[doc = include_str!("../../../docs/life-cycle.md")]
struct LifeCycle;
#[doc = include_str!("../../../docs/limits.md")]
struct Limits;
#[doc = include_str!("../../../docs/logging.md")]
struct Logging;
#[doc = include_str!("../../../docs/messages.md")]
struct Messages;
#[doc = include_str!("../../../docs/middleware.md")]
struct Middleware;
#[doc = include_str!("../../../docs/migrating.md")]
struct Migrating;
#[doc = include_str!("../../../docs/openrpc.md")]
struct OpenRpc;
#[doc = include_str!("../../../docs/ordering.md")]
struct Ordering;
#[doc = include_str!("../../../docs/scale.md")]
struct Scale;
#[doc = include_str!("../../../docs/serving.md")]
struct Serving;
#[doc = include_str!("../../../docs/testing.md")]
struct Testing;
#[doc = include_str!("../../../docs/tls.md")]
struct Tls;
#[doc = include_str!("../../../docs/transports.md")]
struct Transports;
#[doc = include_str!("../../../docs/which-type.md")]
struct WhichType;
