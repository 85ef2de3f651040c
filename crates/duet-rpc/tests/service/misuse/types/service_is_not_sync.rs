struct Vault(std::cell::Cell<u8>);

#[duet_rpc::service]
impl Vault {
    pub fn open(&self) -> u8 {
        self.0.get()
    }
}

fn main() {}
