//! Generated code does not depend on names that users can redefine.
#![no_implicit_prelude]
#![allow(dead_code, unused_variables)]

struct Params;
struct Result;
struct Option;
struct Vec;
struct String;
struct Box;
struct Router;
struct Failure;
struct Some;
struct None;
struct Ok;
struct Err;
mod serde {}
mod std {}
mod core {}
trait Send {}
trait Sync {}
trait Clone {}
trait From {}
trait Into {}
trait Future {}

#[::duet_rpc::service]
trait Math {
    async fn add(
        &self,
        service: i64,
        router: ::std::option::Option<i64>,
        #[rpc(default = 1, name = "params")] params: i64,
        cx: ::duet_rpc::Context,
        handler: i64,
    ) -> ::std::result::Result<i64, Broken>;
    #[rpc(positional)]
    fn sum(&self, elements: i64, count: ::std::option::Option<i64>, serializer: ::std::option::Option<u8>)
    -> i64;
    #[rpc(notification)]
    async fn log(&self, remote: i64);
}

#[derive(Debug, ::duet_rpc::RpcError)]
enum Broken {
    #[rpc(code = 1)]
    Named { remote: i64, error: ::std::option::Option<i64>, f: u8 },
    #[rpc(code = 2)]
    Two(i64, i64),
    #[rpc(internal)]
    Disk(::std::io::Error),
    #[rpc(internal)]
    Formatter { f: ::std::io::Error },
}

use ::std::fmt::Debug;

struct Calculator;

#[::duet_rpc::service]
impl Calculator {
    pub async fn add(&self, service: i64, cx: ::duet_rpc::Context) -> i64 {
        service
    }
    pub async fn context(&self, service: ::duet_rpc::Context, params: ::duet_rpc::Context, number: i64) -> i64 {
        number
    }
    pub fn contexts(&self, router: ::duet_rpc::Context, handler: ::duet_rpc::Context) {}
}

#[::duet_rpc::debug_handler]
async fn handler(a0: (i64, i64)) -> ::std::result::Result<i64, Broken> {
    ::std::result::Result::Ok(a0.0)
}

fn main() {}
