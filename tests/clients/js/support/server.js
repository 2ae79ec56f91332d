// The real server with a scripted model, each on a port of its own.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";

function start(program, args, env) {
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  const found = (pattern) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(text);
        if (match) resolve(match[1]);
      };
      for (const stream of [child.stdout, child.stderr]) {
        stream.on("data", (data) => {
          text += data;
          look();
        });
      }
      child.on("exit", () => reject(new Error(`${program} ended:\n${text}`)));
      setTimeout(() => reject(new Error(`${program} did not say ${pattern}:\n${text}`)), 30_000).unref();
    });
  return { child, found };
}

const stopped = (child, signal) =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.on("exit", resolve);
    child.kill(signal);
  });

export async function serve(env = {}) {
  const model = start(process.env.SCRIPTED_MODEL, ["--port", "0"], process.env);
  const modelUrl = await model.found(/on (http:\/\/\S+)/);
  const home = await mkdtemp(join(tmpdir(), "df-"));
  await writeFile(
    join(home, "config.yaml"),
    `models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n    base_url: ${modelUrl}\n    api_key: test-key-123456\n`,
  );
  const all = { PATH: process.env.PATH, HOME: home, DEER_FLOW_HOME: home, DEER_FLOW_AUTH_DISABLED: "1", DEER_FLOW_LOG: "warn", ...env };
  let port = "0";
  let server;
  const up = async () => {
    server = start(process.env.DEERFLOW, ["serve", "--port", port], all);
    const url = await server.found(/(http:\/\/[0-9.:]+)/);
    port = new URL(url).port;
    return url;
  };
  const url = await up();
  return {
    url,
    async restart(signal = "SIGKILL") {
      await stopped(server.child, signal);
      await up();
    },
    async stop() {
      await stopped(server.child, "SIGTERM");
      await stopped(model.child, "SIGKILL");
      await rm(home, { recursive: true, force: true });
    },
  };
}

export const say = (text) => ({ messages: [{ role: "user", content: text }] });
// Markers for the scripted model, each unlike any other.
export const plain = (tokens = 20, delay = 0) => say(`[[script:plain tokens=${tokens} delay_ms=${delay}]] ${randomUUID()}`);
export const tools = (rounds = 2, delay = 0) => say(`[[script:tools n=${rounds} tokens=10 delay_ms=${delay}]] ${randomUUID()}`);

export async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
