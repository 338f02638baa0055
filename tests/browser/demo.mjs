// A demo that runs on, and the commands that work on its store.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

export class Demo {
  static async start(sealane) {
    const demo = new Demo();
    demo.sealane = sealane;
    demo.home = await mkdtemp(path.join(tmpdir(), 'sealane-browser-'));
    demo.config = path.join(demo.home, 'demo', 'sealane.toml');
    demo.process = spawn(sealane, ['demo', '--seconds', '3', '--keep', '--dir', path.dirname(demo.config)], { stdio: ['ignore', 'ignore', 'pipe'] });
    demo.ended = new Promise((resolve) => demo.process.once('exit', resolve));
    demo.url = await new Promise((resolve, reject) => {
      let said = '';
      const late = setTimeout(() => reject(new Error(`the demo did not say where its dashboard is; it said:\n${said}`)), 90000);
      demo.process.stderr.on('data', (data) => {
        said += data;
        const line = /^dashboard: (http:\/\/127\.0\.0\.1:\d+)\/?$/m.exec(said);
        // The dashboard is there from the beginning; this line comes when the shop is closed.
        if (!line || !said.includes('run on until Ctrl-C')) return;
        clearTimeout(late);
        resolve(line[1]);
      });
      demo.ended.then((code) => reject(new Error(`the demo ended with ${code}; it said:\n${said}`)));
    }).catch(async (error) => {
      await demo.stop();
      throw error;
    });
    return demo;
  }

  // Runs a command on the demo's store and gives what it printed.
  run(...words) {
    return this.execute(this.sealane, [...words, '--config', this.config]);
  }

  async json(...words) {
    return JSON.parse(await this.run(...words, '-o', 'json'));
  }

  // Runs a line as a person would who has pasted it into a shell.
  shell(line) {
    return this.execute('bash', ['-c', line], { PATH: `${path.dirname(this.sealane)}:${process.env.PATH}` });
  }

  execute(program, words, environment = {}) {
    return new Promise((resolve, reject) => {
      execFile(program, words, { timeout: 30000, maxBuffer: 1 << 26, env: { ...process.env, ...environment } }, (error, out, said) =>
        (error ? reject(new Error(`${program} ${words.join(' ')}: ${error.message}\n${said}`)) : resolve(out)));
    });
  }

  // Ends the demo; its relay dies with it.
  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill('SIGTERM');
      const late = setTimeout(() => this.process.kill('SIGKILL'), 20000);
      await this.ended;
      clearTimeout(late);
    }
  }

  async remove() {
    await this.stop();
    await rm(this.home, { recursive: true, force: true });
  }
}
