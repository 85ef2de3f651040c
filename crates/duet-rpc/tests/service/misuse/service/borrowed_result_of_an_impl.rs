struct Notes(Vec<String>);

#[duet_rpc::service]
impl Notes {
    pub fn version(&self) -> &'static str {
        "1.0"
    }

    pub fn all(&self) -> &[String] {
        &self.0
    }

    pub fn first(&self) -> Option<&str> {
        self.0.first().map(|note| &**note)
    }

    pub async fn title(&self) -> Result<std::borrow::Cow<'_, str>, duet_rpc::Failure> {
        Ok("title".into())
    }
}

fn main() {}
