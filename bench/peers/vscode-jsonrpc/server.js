// Echo server on vscode-jsonrpc, set up as its documentation shows.
'use strict';

const rpc = require('vscode-jsonrpc/node');
const { setImmediate, setTimeout } = require('node:timers/promises');

const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin),
  new rpc.StreamMessageWriter(process.stdout),
);

connection.onRequest('echo', (params) => params);

connection.onRequest('later', async (params) => {
  await setImmediate();
  return params;
});

connection.onRequest('nap', async (params) => {
  await setTimeout(1);
  return params;
});

// Nothing else is needed to end it: Node exits by itself when stdin is at its
// end and no timer runs.
connection.listen();
