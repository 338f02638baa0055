// Checks with a name and a limit in time, counted at the end.

let passed = 0;
let failed = 0;

export async function check(name, work, seconds = 60) {
  let timer;
  try {
    await Promise.race([work(), new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`it took longer than ${seconds} s`)), seconds * 1000);
    })]);
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED: ${name}\n  ${String(error.stack ?? error).split('\n').slice(0, 12).join('\n  ')}`);
  } finally {
    clearTimeout(timer);
  }
}

export function expect(condition, text) {
  if (!condition) throw new Error(text);
}

export function same(actual, wanted, what) {
  const [is, should] = [JSON.stringify(actual), JSON.stringify(wanted)];
  if (is !== should) throw new Error(`${what}: it is ${is}, and should be ${should}`);
}

// Asks again until the answer is true.
export async function eventually(what, ask, seconds = 15) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await ask()) return;
    if (Date.now() > end) throw new Error(`did not come to be within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export function verdict() {
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}
