//! The macros of `duet-rpc`. Use them through `duet-rpc`, which re-exports and documents them.
//!
//! | file | contents |
//! |---|---|
//! | `options` | the options in `#[rpc(...)]` and `#[service(...)]` |
//! | `errors` | collected errors of one item |
//! | `naming` | names on the wire |
//! | `syntax` | helpers for the syntax of types |
//! | `service` | `#[service]`: the model of a method, then the router, the client and the description |
//! | `rpc_error` | `#[derive(RpcError)]` |
//! | `debug_handler` | `#[debug_handler]` |

#![expect(missing_docs, reason = "duet-rpc documents the macros, because the examples need it")]

mod debug_handler;
mod errors;
mod naming;
mod options;
mod rpc_error;
mod service;
mod syntax;

use proc_macro::TokenStream;

#[proc_macro_attribute]
pub fn service(options: TokenStream, item: TokenStream) -> TokenStream {
    service::expand(options.into(), item.into()).into()
}

#[proc_macro_derive(RpcError, attributes(rpc))]
pub fn rpc_error(item: TokenStream) -> TokenStream {
    rpc_error::expand(item.into()).into()
}

#[proc_macro_attribute]
pub fn debug_handler(options: TokenStream, item: TokenStream) -> TokenStream {
    debug_handler::expand(options.into(), item.into()).into()
}
