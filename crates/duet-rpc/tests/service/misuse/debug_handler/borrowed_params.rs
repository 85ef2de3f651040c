#[duet_rpc::debug_handler]
async fn add(line: &str, other: impl Into<String>) -> usize {
    line.len()
}

fn main() {}
