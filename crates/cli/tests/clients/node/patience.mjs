// Shared by scripts that must not hang, exit silently, or leave a process behind.
const seconds = Number(process.env.PATIENCE ?? '60');

/** The current check, for the failure message. */
let subject = 'the start';
let isOver = false;

/** Names the check that starts here. */
export function checking(what) {
  subject = what;
}

/** Reports success. */
export function over() {
  isOver = true;
}

/** Processes to kill when this one ends. */
export const children = new Set();

/** Reports a failure, and exits. */
export function give(why) {
  console.error(`${subject}: ${why}`);
  process.exit(1);
}

process.on('exit', (code) => {
  children.forEach((child) => child.kill('SIGKILL'));
  // Node exits silently if nothing is left that could still answer.
  if (code !== 1 && !isOver) console.error(`${subject}: the server has ended, and no answer can come any more`);
});
setTimeout(() => give(`nothing came within ${seconds} s`), seconds * 1000).unref();
process.on('uncaughtException', (error) => give(error.stack));
process.on('unhandledRejection', (error) => give(error?.stack ?? error));
