// Opens an export in a real browser, and prints what the browser found in it.
//
//   node browser.mjs har|mermaid BROWSER WS PROFILE LIBRARY FILE
//
// `har` imports a HAR file with the browser's own developer tools; `mermaid` renders a diagram.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [mode, program, ws, profile, library, file] = process.argv.slice(2)
const { default: WebSocket } = await import(pathToFileURL(ws))
const options = ['--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0']
const browser = spawn(program, [...options, `--user-data-dir=${profile}`, 'about:blank'], {
  stdio: ['ignore', 'ignore', 'pipe'],
})
process.on('exit', () => browser.kill('SIGKILL'))
setTimeout(() => { console.error('the browser does not answer'); process.exit(1) }, 60_000).unref()

const address = await new Promise((resolve) => {
  let said = ''
  browser.stderr.on('data', (data) => {
    said += data
    const found = said.match(/listening on (ws:\S+)/)
    if (found) resolve(found[1])
  })
})
const socket = new WebSocket(address)
await new Promise((resolve) => { socket.onopen = resolve })
const waiting = new Map()
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data)
  waiting.get(message.id)?.(message)
}
let count = 0
const call = (method, params, sessionId) => new Promise((resolve, reject) => {
  count += 1
  waiting.set(count, (message) => message.error ? reject(new Error(message.error.message)) : resolve(message.result))
  socket.send(JSON.stringify({ id: count, method, params, sessionId }))
})

const url = mode === 'har' ? 'devtools://devtools/bundled/devtools_app.html' : 'about:blank'
const { targetId } = await call('Target.createTarget', { url })
const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true })
const evaluate = async (expression) => {
  const params = { expression, awaitPromise: true, returnByValue: true }
  const { result, exceptionDetails } = await call('Runtime.evaluate', params, sessionId)
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
  return result.value
}
// The page of the developer tools takes a moment to be there.
while (mode === 'har' && !(await evaluate('location.href')).startsWith('devtools:')) {
  await new Promise((resolve) => setTimeout(resolve, 50))
}

const text = readFileSync(file, 'utf8')
if (mode === 'har') {
  console.log(await evaluate(`import('devtools://devtools/bundled/models/har/har.js').then((har) => {
    const { log } = new har.HARFormat.HARRoot(${text})
    const requests = har.Importer.Importer.requestsFromHARLog(log)
    return requests.map((it) => it.url() + ' ' + it.statusCode + ' ' + Math.round(it.duration * 1000) + ' ms').join('\\n')
  })`))
} else {
  await evaluate(`${readFileSync(library, 'utf8')};undefined`)
  console.log(await evaluate(`(async () => {
    mermaid.initialize({ startOnLoad: false })
    const { svg } = await mermaid.render('diagram', ${JSON.stringify(text)})
    if (svg.includes('Syntax error') || svg.includes('<script')) throw new Error(svg)
    const page = new DOMParser().parseFromString(svg, 'text/html')
    return page.querySelectorAll('.messageText').length + ' messages'
  })()`))
}
process.exit(0)
