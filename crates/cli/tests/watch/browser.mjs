// Starts the browser for the tests of the page. The environment names playwright-core and the browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';

const { chromium } = createRequire(import.meta.url)(process.env.PLAYWRIGHT);

// A hang must fail the test, not block it.
setTimeout(() => {
  console.error('it hangs');
  process.exit(1);
}, 1000 * (process.env.PATIENCE ?? 120)).unref();

/** Runs a test with a browser. The browser talks to nobody else, and has no sandbox, which a container lacks. */
export async function withBrowser(test) {
  const executablePath = execFileSync('which', [process.env.BROWSER], { encoding: 'utf8' }).trim();
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--no-proxy-server'];
  const server = await chromium.launchServer({ executablePath, args });
  const browser = await chromium.connect(server.wsEndpoint());
  try {
    await test(browser, server.process().pid);
  } finally {
    await browser.close();
    await server.close();
  }
}

/** Opens a page, and notes everything that must not happen: errors, refused content, requests to other servers. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 760 }, colorScheme: 'light', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const problems = [];
  const origin = new URL(url).origin;
  page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  page.on('console', (message) => message.type() === 'error' && problems.push(`console: ${message.text()}`));
  page.on('dialog', (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => new URL(request.url()).origin === origin || problems.push(`request: ${request.url()}`));
  await page.goto(url);
  return { context, page, problems };
}

/** Waits until the visible rows are loaded. */
export const rows = (page) => page.waitForFunction(() => {
  const lines = [...document.querySelectorAll('.row:not([hidden])')];
  return lines.length > 0 && lines.every((line) => !line.classList.contains('loading'));
});

/** The texts of the cells with this class, in the order of the list. */
export const cells = (page, name) => page.evaluate((name) => {
  const lines = [...document.querySelectorAll('.row:not([hidden])')];
  lines.sort((a, b) => a.dataset.position - b.dataset.position);
  return lines.map((line) => line.querySelector(`.${name}`)?.textContent ?? '');
}, name);

/** Waits until a condition of the test holds. */
export async function until(what, condition) {
  for (const end = Date.now() + 20_000; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `${what} did not happen`);
  }
}

/** Waits until the number of rows is shown. */
export const counted = (page, text) => until(`the count ${text}`, async () => (await page.textContent('#count')) === text);

/** The memory of a process in MB. */
export const memory = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;

/** The memory of the largest process that shows pages. */
export function pageMemory(browser) {
  const children = (pid) => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((name) => {
    try {
      return readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1].split(' ')[1] === String(pid);
    } catch {
      return false;
    }
  });
  const all = (pid) => children(pid).flatMap((child) => [child, ...all(child)]);
  const renderers = all(browser).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--type=renderer');
    } catch {
      return false;
    }
  });
  return Math.max(...renderers.map(memory));
}
