const { spawn } = require('node:child_process');
const rpc = require('vscode-jsonrpc/node');

async function main() {
  const server = spawn('./server');
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(server.stdout),
    new rpc.StreamMessageWriter(server.stdin),
  );
  connection.onRequest('confirm', (question) => question.length > 0);
  connection.listen();
  console.log(await connection.sendRequest('add', 1, 2));
  connection.end();
}

main();
