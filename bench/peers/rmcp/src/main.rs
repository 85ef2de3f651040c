//! Echo server on rmcp: the methods are custom requests.

use std::error::Error;
use std::time::Duration;

use rmcp::model::{CustomRequest, CustomResult, ErrorCode};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

// One thread: rmcp spawns a task per request, and pipelines were a third faster
// than with the several threads of tokio's default.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The documentation prefers these to `stdio`, which goes through another
    // thread.
    Echo.serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}

struct Echo;

impl ServerHandler for Echo {
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            "echo" => {}
            "later" => tokio::task::yield_now().await,
            "nap" => tokio::time::sleep(Duration::from_millis(1)).await,
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
        Ok(CustomResult::new(request.params.unwrap_or_default()))
    }
}
