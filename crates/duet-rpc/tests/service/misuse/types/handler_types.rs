struct Secret;

struct Broken;

#[duet_rpc::debug_handler]
async fn open(secret: Secret) -> Result<Secret, Broken> {
    Ok(secret)
}

fn main() {}
