// The contents of the package, and its use with `require`, with `import`, and as in the README.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from './support';

const ROOT = join(__dirname, '..', '..');
const EXPORTS = [
  'CancellationTokenSource', 'Daemon', 'DaemonError', 'FramingError', 'LengthPrefixedMessageReader',
  'LengthPrefixedMessageWriter', 'ResponseError',
];

/** A folder in which the package is installed. */
function withUser(act: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'duet-rpc-user-'));
  try {
    mkdirSync(join(folder, 'node_modules', '@types'), { recursive: true });
    symlinkSync(ROOT, join(folder, 'node_modules', 'duet-rpc'));
    for (const name of ['@types/node', 'vscode-jsonrpc']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
    }
    act(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

check('the package contains the expected files and no others', () => {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const output = execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8' });
  const [pack] = JSON.parse(output) as { files: { path: string }[] }[];
  const modules = readdirSync(join(ROOT, 'src')).map((name) => name.replace(/\.ts$/, ''));
  const built = modules.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]);
  const expected = ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'package.json', ...built];
  assert.deepEqual(pack?.files.map(({ path }) => path).sort(), expected.sort());
});

check('the package has the version and the licence of the project', () => {
  const { version, license, private: isPrivate } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const workspace = readFileSync(join(ROOT, '..', '..', 'Cargo.toml'), 'utf8');
  assert.equal(version, /^version = "(.*)"$/m.exec(workspace)?.[1]);
  assert.equal(license, /^license = "(.*)"$/m.exec(workspace)?.[1]);
  assert.equal(isPrivate, undefined);
});

check('the package can be required and imported', () =>
  withUser((folder) => {
    const run = (args: string[]): string => execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    // Node adds its own names.
    const print = 'console.log(Object.keys(it).filter((name) => /^[A-Z]/.test(name)).sort().join())';
    writeFileSync(join(folder, 'required.cjs'), `const it = require('duet-rpc'); ${print}`);
    writeFileSync(join(folder, 'imported.mjs'), `import * as it from 'duet-rpc'; ${print}`);
    for (const name of ['required.cjs', 'imported.mjs']) assert.equal(run([name]).trim(), EXPORTS.join(), name);
  }));

check('the code of the README fits the package', () =>
  withUser((folder) => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    const blocks = [...readme.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code ?? '');
    assert.ok(blocks.length >= 4);
    blocks.forEach((code, index) => writeFileSync(join(folder, `block${index}.mts`), code));
    const electron = join(ROOT, 'test', 'electron.d.ts');
    const output = { noEmit: true, skipDefaultLibCheck: true };
    const compilerOptions = { strict: true, target: 'es2022', module: 'nodenext', types: ['node'], ...output };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.mts', electron] }));
    const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
    assert.equal(stdout, '');
    assert.equal(status, 0);
  }));
