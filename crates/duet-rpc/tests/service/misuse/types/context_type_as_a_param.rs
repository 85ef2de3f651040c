use duet_rpc::{Context, Failure, FromContext};
use serde::{Deserialize, Serialize};

/// A caller could send one.
#[derive(Serialize, Deserialize)]
struct User;

impl FromContext for User {
    fn from_context(_: Context) -> Result<Self, Failure> {
        Ok(User)
    }
}

#[duet_rpc::service]
trait Vault {
    async fn open(&self, user: User, door: u8);
    async fn knock(&self, user: Option<User>);
    async fn lock(&self, #[rpc(whole)] user: User);
    async fn close(&self, #[rpc(context)] user: User);
}

struct Cellar;

#[duet_rpc::service]
impl Cellar {
    pub fn open(&self, _user: User, _door: u8) {}
}

fn main() {}
