//! TLS of a call (T5): the server that is trusted, and the certificate that is sent.

use duet_rpc::transport::{Address, TlsClient};

use crate::args::CallTlsArgs;
use crate::console;
use crate::exit::Problem;

/// The settings that the command line asks for.
pub(in crate::cmd) fn settings(
    args: &CallTlsArgs,
    connect: Option<&Address>,
) -> Result<TlsClient, Problem> {
    let CallTlsArgs { cacert, cert, key, servername, insecure } = args;
    let is_secure = connect.is_some_and(Address::is_secure);
    let has_options = cacert.is_some() || cert.is_some() || servername.is_some() || *insecure;
    if has_options && !is_secure {
        return Err(Problem::usage(
            "--cacert, --cert, --servername and --insecure need an address with TLS: \
             --connect with tls://, wss:// or https://",
        ));
    }
    let mut tls = TlsClient::new();
    let cannot = |error| Problem::failure(format!("cannot use TLS: {error}"));
    if let Some(file) = cacert {
        tls = tls.ca_file(file).map_err(cannot)?;
    }
    if let (Some(certificate), Some(key)) = (cert, key) {
        tls = tls.client_certificate(certificate, key).map_err(cannot)?;
    }
    if let Some(name) = servername {
        tls = tls.server_name(name).map_err(cannot)?;
    }
    if *insecure {
        console::say(format_args!(
            "the server's certificate is not checked: anyone on the way can read and change everything"
        ));
        tls = tls.danger_accept_any_certificate();
    }
    Ok(tls)
}
