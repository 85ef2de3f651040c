// Removes a folder of build output, so that no file of an older build is tested or packed.
import { rmSync } from 'node:fs';

const [name] = process.argv.slice(2);
if (name !== 'build' && name !== 'dist') {
  throw new Error('only build and dist are removed');
}
rmSync(new URL(`../${name}`, import.meta.url), { recursive: true, force: true });
