Content-Length: 2

[]Content-Length: 37

{"jsonrpc":"2.0","id":2,"method":"b"}