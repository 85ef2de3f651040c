Content-Length: 5
Content-Length: 6

{"jsonrpc":"2.0","id":1,"method":"a"}Content-Length: 37

{"jsonrpc":"2.0","id":2,"method":"b"}