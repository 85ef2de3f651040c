use duet_rpc::{Context, Failure, FromContext};

struct User;

impl FromContext for User {
    fn from_context(_: Context) -> Result<Self, Failure> {
        Ok(User)
    }
}

#[duet_rpc::service]
trait Vault {
    async fn open(&self, user: User, door: u8);
}

struct Cellar;

#[duet_rpc::service]
impl Cellar {
    pub fn open(&self, _user: User, _door: u8) {}
}

fn main() {}
