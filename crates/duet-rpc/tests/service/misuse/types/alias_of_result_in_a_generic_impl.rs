type Outcome<T> = Result<T, String>;

struct Vault<T>(T);

#[duet_rpc::service]
impl<T: serde::Serialize + Clone + Send + Sync + 'static> Vault<T> {
    pub fn size(&self) -> Outcome<u8> {
        Ok(1)
    }
    pub fn open(&self) -> Outcome<T> {
        Ok(self.0.clone())
    }
    pub fn plain(&self) -> T {
        self.0.clone()
    }
}

fn main() {}
