// What scripts have in common that must not hang, end without a word, or leave a process behind.
const seconds = Number(process.env.PATIENCE ?? '60');

/** What is being checked, for the message if it fails. */
let subject = 'the start';
let isOver = false;

/** Says what is being checked from here on. */
export function checking(what) {
  subject = what;
}

/** Says that all was as it should be. */
export function over() {
  isOver = true;
}

/** Processes that end with this one, whatever comes. */
export const children = new Set();

/** Fails. */
export function give(why) {
  console.error(`${subject}: ${why}`);
  process.exit(1);
}

process.on('exit', (code) => {
  children.forEach((child) => child.kill('SIGKILL'));
  // Node ends by itself, without a word, if nothing is left that could still answer.
  if (code !== 1 && !isOver) console.error(`${subject}: the server has ended, and no answer can come any more`);
});
setTimeout(() => give(`nothing came within ${seconds} s`), seconds * 1000).unref();
process.on('uncaughtException', (error) => give(error.stack));
process.on('unhandledRejection', (error) => give(error?.stack ?? error));
