// Every view of the known trace of traces.rs. Argument: the address of the page.
import assert from 'node:assert/strict';
import { cells, counted, open, rows, until, withBrowser } from './browser.mjs';

const [url] = process.argv.slice(2);

await withBrowser(async (browser) => {
  const { context, page, problems } = await open(browser, url);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await rows(page);

  // The token has left the address bar, and the cookie opens the page again.
  assert.doesNotMatch(page.url(), /token/);
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);

  // Table.
  await counted(page, '17 records');
  const kinds = await cells(page, 'kind');
  assert.deepEqual(kinds, ['request', 'stderr', 'response', 'notification', 'request', 'response', 'request', 'error',
    'request', 'no answer', 'cancelled', 'notification', 'noise', 'response', 'eof', 'exit', 'end']);
  assert.equal((await cells(page, 'took'))[13], '2.40 s');
  assert.deepEqual((await cells(page, 'dir')).slice(0, 3), ['→', '≡', '←'], 'stderr is not a warning');
  assert.equal((await cells(page, 'brief'))[12], 'debug: cache miss for 0x7f\\n');

  // Keys: the third record, its detail, its request, and back.
  for (const key of ['g', 'j', 'j', 'Enter']) await page.keyboard.press(key);
  await page.waitForSelector('#detail .tree');
  assert.match(await page.textContent('#detail .fields'), /Took3\.50 ms/);
  assert.match(await page.textContent('#detail .tree'), /capabilities: .*hover: true/);
  assert.match(page.url(), /r=2/);
  await page.keyboard.press('p');
  await until('the request is open', async () => /processId/.test(await page.textContent('#detail')));
  await page.click('text=Copy as call');
  await until('the command is copied', async () => !(await page.isHidden('#toast')));
  const call = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(call, `duet-rpc call --framing lsp initialize '{"processId":7,"rootUri":null}' -- /usr/bin/clangd --background-index`);
  await page.click('#detail >> text=Raw');
  await page.waitForSelector('.raw');
  assert.equal(JSON.parse(await page.textContent('.raw')).method, 'initialize');
  await page.click('#detail >> text=Hex');
  await page.waitForSelector('.hex');
  assert.match(await page.textContent('.hex'), /^00000000 {2}7b 22/);
  await page.keyboard.press('Escape');
  assert.ok(await page.isHidden('#detail'));

  // Diff of the two hovers, by a link: the state of the page is in its address.
  const link = page.url().split('#')[0];
  await page.goto(`${link}#s=known.jsonl&r=6&base=4&tab=diff`);
  await page.waitForSelector('.diff');
  const paths = await page.$$eval('.diff .path', (all) => all.map((it) => it.textContent));
  assert.deepEqual(paths, ['/id', '/params/position/line']);
  await page.keyboard.press('Escape');

  // Filters, with a mistake in between.
  await page.keyboard.press('/');
  await page.keyboard.type('method:textDocument/* -kind:error');
  await counted(page, '5 of 17');
  await page.fill('#filter', 'took:soon');
  await page.waitForSelector('#banner:not([hidden])');
  assert.match(await page.textContent('#banner'), /expected a time such as >100ms/);
  await page.fill('#filter', 'is:unanswered');
  await counted(page, '1 of 17');
  assert.ok(await page.isHidden('#banner'));
  await page.fill('#filter', 'method:nothing');
  await page.waitForSelector('.empty >> text=No match');
  await page.click('text=Clear the filter');
  await counted(page, '17 records');

  // A filter that is left immediately counts, too.
  await page.fill('#filter', 'kind:noise');
  await page.keyboard.press('Escape');
  await counted(page, '1 of 17');
  await page.click('#clear');
  await counted(page, '17 records');

  // Pairs.
  await page.keyboard.press('2');
  await counted(page, '6 requests');
  await rows(page);
  assert.deepEqual(await cells(page, 'state'), ['answered', 'answered', 'error', 'late', 'no answer', 'cancelled']);
  assert.equal((await cells(page, 'brief'))[3], '{"query":"it\'s"}');
  await page.click('.head >> text=Took');
  await until('the slowest is first', async () => (await cells(page, 'took'))[0] === '2.40 s');
  assert.deepEqual((await cells(page, 'state')).slice(-2), ['no answer', 'cancelled']);

  // The table has the same order: each request before its answer. The records without a time come last.
  await page.keyboard.press('1');
  await until('the slowest is first', async () => (await cells(page, 'took')).join().startsWith('2.40 s,2.40 s,12.0 ms,12.0 ms'));
  assert.deepEqual((await cells(page, 'kind')).slice(0, 3), ['request', 'response', 'request']);
  assert.equal(await page.getAttribute('.head .took', 'aria-sort'), 'descending');
  await page.click('.head >> text=Time');
  await until('the first is first', async () => (await cells(page, 'seq'))[0] === '1');
  assert.doesNotMatch(page.url(), /sort=/);
  await page.keyboard.press('2');
  await counted(page, '6 requests');

  // Quick filters have counts. Each replaces the one before, keeps the rest of the filter, and is off after a second
  // click. One for records that are not requests shows the table.
  const quick = await page.$$eval('#quick .chip', (all) => all.map((it) => it.textContent));
  assert.deepEqual(quick, ['Errors1', 'Pending', 'No answer1', 'Cancelled1', 'Late1', 'Noise1', 'stderr']);
  for (const [before, button, after, count] of [
    ['', 'No answer', 'is:unanswered', '1 request'],
    ['is:unanswered', 'Late', 'is:late', '1 request'],
    ['is:late', 'Errors', 'is:failed', '1 request'],
    ['is:failed', 'Cancelled', 'is:cancelled', '1 request'],
    ['method:w* is:late', 'Errors', 'method:w* is:failed', '0 requests'],
    ['method:w* is:late', 'Late', 'method:w*', '1 request'],
    ['id:1 | id:4', 'Late', '(id:1 | id:4) is:late', '1 request'],
    ['(id:1 | id:4) is:late', 'Late', '(id:1 | id:4)', '2 requests'],
    ['kind:request|error is:late', 'Errors', 'kind:request|error is:failed', '1 request'],
    ['is:late|method:initialize', 'Late', '(is:late|method:initialize) is:late', '1 request'],
    ['"(is:late | \\" is:noise"', 'Late', '"(is:late | \\" is:noise" is:late', '0 requests'],
  ]) {
    await page.fill('#filter', before);
    await page.click(`#quick >> text=${button}`);
    assert.equal(await page.inputValue('#filter'), after);
    await counted(page, count);
    const isOn = after.split(' ').some((it) => it.startsWith('is:'));
    assert.equal(await page.getAttribute(`#quick .chip:has-text("${button}")`, 'aria-pressed'), String(isOn), after);
  }
  for (const clear of [() => page.click('#clear'), () => page.keyboard.press('Escape')]) {
    await page.fill('#filter', 'is:unanswered');
    await page.click('.head >> text=Method');
    await clear();
    await counted(page, '6 requests');
  }
  await page.click('#quick >> text=No answer');
  await counted(page, '1 request');
  await page.click('#quick >> text=Noise');
  await counted(page, '1 of 17');
  assert.match(page.url(), /v=table/);
  assert.equal(await page.inputValue('#filter'), 'is:noise');
  await page.keyboard.press('2');
  await page.waitForSelector('.empty >> text=No request matches the filter');
  await page.click('text=Show the table');
  await counted(page, '1 of 17');
  await page.keyboard.press('Escape');
  await counted(page, '17 records');

  // The cancellation of a request without an answer is not unanswered itself.
  await page.fill('#filter', 'is:cancelled');
  await counted(page, '2 of 17');
  await page.fill('#filter', 'is:late');
  await counted(page, '2 of 17');
  await page.fill('#filter', '');
  await page.keyboard.press('Escape');

  // A session that is not here.
  await page.goto(`${link}#s=bad.jsonl`);
  await page.waitForSelector('#banner:not([hidden])');
  assert.match(await page.textContent('#banner'), /There is no session “bad\.jsonl” in /);
  await page.goto(`${link}#s=known.jsonl`);
  await until('the notice is gone', () => page.isHidden('#banner'));
  await page.keyboard.press('2');
  await rows(page);

  // The threshold for late answers is a setting, in the URL and in the filter language.
  await page.selectOption('#late', '5000');
  await until('no answer is late', async () => !(await cells(page, 'state')).includes('late'));
  assert.match(page.url(), /late=5000/);
  const late = () => page.textContent('#quick .chip:has-text("Late") i');
  await until('no late answer is counted', async () => (await late()) === '');
  await page.fill('#filter', 'is:late');
  await counted(page, '0 requests');
  await page.selectOption('#late', '1000');
  await until('one late answer is counted', async () => (await late()) === '1');
  await counted(page, '1 request');
  assert.doesNotMatch(page.url(), /late=/);
  await page.click('#clear');
  await counted(page, '6 requests');

  // Timeline: a range has fewer requests than the whole session.
  await page.keyboard.press('3');
  await counted(page, '6 requests');
  const box = await (await page.waitForSelector('.overview')).boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await counted(page, '3 requests');
  assert.match(page.url(), /from=\d+&to=\d+/);
  await page.keyboard.press('0');
  await counted(page, '6 requests');

  // Sequence.
  await page.keyboard.press('4');
  await rows(page);
  const words = await cells(page, 'words');
  assert.match(words[7], /^textDocument\/hover.*id 3 · error · 1\.00 ms/);
  assert.match(words[12], /noise.*cache miss/);
  assert.equal(await page.textContent('.actor.server'), 'clangd');

  // Statistics.
  await page.keyboard.press('5');
  await page.waitForSelector('.methods td');
  const cards = await page.$$eval('.card', (all) => all.map((it) => it.textContent));
  assert.match(cards[0], /^Requests6/);
  assert.match(cards[1], /^Errors1/);
  assert.match(cards[4], /^Slowest2\.40 s/);
  assert.match(cards[7], /^Stray output11 stderr line$/);
  await page.click('.methods >> text=textDocument/hover');
  await counted(page, '4 of 17');

  // The help, the theme, and the back button.
  await page.keyboard.press('?');
  assert.ok(await page.isVisible('#help-box'));
  await page.keyboard.press('Escape');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.keyboard.press('t');
  assert.equal(await theme(), 'dark');
  await page.reload();
  assert.equal(await theme(), 'dark');
  await counted(page, '4 of 17');
  await page.goBack();
  await page.waitForSelector('.methods td');

  // At the width of a phone, nothing is wider than the screen.
  const phone = await open(browser, url, { viewport: { width: 390, height: 780 } });
  for (const key of ['1', '2', '3', '4', '5']) {
    await phone.page.keyboard.press(key);
    await phone.page.waitForSelector(key === '5' ? '.methods td' : '.row');
    const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `view ${key} is ${wide} pixels wide`);
  }
  assert.deepEqual([...problems, ...phone.problems], []);
});
