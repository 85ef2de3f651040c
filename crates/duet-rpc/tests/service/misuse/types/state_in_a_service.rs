use duet_rpc::State;

struct App;

struct Notes;

#[duet_rpc::service]
impl Notes {
    pub fn add(&self, _app: State<App>) {}
}

fn main() {}
