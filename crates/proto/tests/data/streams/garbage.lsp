hello
Content-Length: 37

{"jsonrpc":"2.0","id":1,"method":"a"}xContent-Length: 37

{"jsonrpc":"2.0","id":2,"method":"b"}