// Puts the page together.
import * as aside from './aside.js';
import * as audit from './audit.js';
import * as consumers from './consumers.js';
import { startCopying } from './copy.js';
import { startKeys } from './keys.js';
import { live, onLook, startLooking } from './live.js';
import * as message from './message.js';
import * as messages from './messages.js';
import * as overview from './overview.js';
import { screen, startRouting } from './router.js';
import { startShell } from './shell.js';
import * as task from './task.js';
import * as tasks from './tasks.js';
import { startTicking } from './time.js';

startShell();
startKeys();
startCopying();
startTicking();
// The screen hears of every look, and of the first one after nobody answered.
onLook((recovered) => {
  if (live.overview) screen()?.look?.(live.overview);
  if (recovered) screen()?.recovered?.();
});
startRouting([
  [/^\/messages$/, messages],
  [/^\/messages\/([^/]+)$/, message],
  [/^\/aside$/, aside],
  [/^\/consumers$/, consumers],
  [/^\/tasks$/, tasks],
  [/^\/tasks\/([^/]+)$/, task],
  [/^\/audit$/, audit],
  [/^/, overview],
]);
startLooking();
