Content-Length: 37

{"jsonrpc":"2.0","id":1,"method"