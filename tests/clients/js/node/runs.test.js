// `Client`: runs, threads, assistants and store of the JavaScript SDK.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { collect, plain, serve, tools } from "../support/server.js";

let server;
before(async () => (server = await serve()));
after(async () => server.stop());

for (const mount of ["/api", "/api/langgraph"]) {
  describe(mount, () => {
    const client = () => new Client({ apiUrl: server.url + mount, apiKey: null });
    const thread = async () => (await client().threads.create()).thread_id;

    test("a stream is complete", async () => {
      const id = await thread();
      let created;
      const parts = await collect(
        client().runs.stream(id, "lead_agent", {
          input: plain(),
          streamMode: ["values", "messages-tuple", "updates", "custom"],
          streamResumable: true,
          onRunCreated: (run) => (created = run),
        }),
      );
      const named = parts.filter((part) => part.event);
      assert.equal(named[0].event, "metadata");
      assert.equal(named.at(-1).event, "end");
      assert.deepEqual(created, { run_id: named[0].data.run_id, thread_id: id });
      const values = named.filter((part) => part.event === "values").at(-1).data;
      assert.equal(values.messages.at(-1).type, "ai");
    });

    for (const streamMode of ["values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"]) {
      test(`mode ${streamMode}`, async () => {
        const parts = await collect(client().runs.stream(await thread(), "lead_agent", { input: tools(), streamMode }));
        assert.equal(parts.filter((part) => part.event === "error").length, 0);
        assert.equal(parts.filter((part) => part.event).at(-1).event, "end");
      });
    }

    test("wait, create, join, list, get, cancel, delete", async () => {
      const id = await thread();
      const values = await client().runs.wait(id, "lead_agent", { input: plain() });
      assert.equal(values.messages.at(-1).type, "ai");
      const run = await client().runs.create(id, "lead_agent", { input: plain(), metadata: { mine: 1 } });
      assert.equal((await client().runs.join(id, run.run_id)).messages.at(-1).type, "ai");
      assert.equal((await client().runs.get(id, run.run_id)).status, "success");
      assert.equal((await client().runs.list(id, { limit: 1 })).length, 1);
      const slow = await client().runs.create(id, "lead_agent", { input: plain(2000, 50) });
      await client().runs.cancel(id, slow.run_id, true);
      assert.equal((await client().runs.get(id, slow.run_id)).status, "interrupted");
      await client().runs.delete(id, slow.run_id);
      assert.equal((await client().runs.list(id)).length, 2);
      const batch = await client().runs.createBatch([{ assistantId: "lead_agent", input: plain() }]);
      assert.equal(batch.length, 1);
    });

    test("a broken connection is taken up again by itself", async () => {
      const id = await thread();
      const run = await client().runs.create(id, "lead_agent", { input: plain(40, 20), streamMode: ["values"] });
      let last;
      for await (const part of client().runs.joinStream(id, run.run_id, { streamMode: ["values"] })) {
        last = part.id ?? last;
        break;
      }
      const rest = await collect(client().runs.joinStream(id, run.run_id, { lastEventId: last, streamMode: ["values"] }));
      assert.equal(rest.filter((part) => part.event).at(-1).event, "end");
    });

    test("threads", async () => {
      const id = await thread();
      await client().runs.wait(id, "lead_agent", { input: plain() });
      await client().threads.updateState(id, { values: { title: "Renamed" } });
      const state = await client().threads.getState(id);
      assert.equal(state.values.title, "Renamed");
      assert.equal((await client().threads.get(id)).values.title, "Renamed");
      const history = await client().threads.getHistory(id, { limit: 10 });
      assert.equal(history[0].checkpoint.checkpoint_id, state.checkpoint.checkpoint_id);
      const copy = await client().threads.copy(id);
      assert.notEqual(copy.thread_id, id);
      await client().threads.update(id, { metadata: { kind: "js" } });
      assert.ok((await client().threads.search({ metadata: { kind: "js" } })).some((found) => found.thread_id === id));
      assert.ok((await client().threads.count({ metadata: { kind: "js" } })) >= 1);
      await client().threads.delete(id);
      await assert.rejects(client().threads.get(id), /404/);
    });

    test("assistants and store", async () => {
      const [lead] = await client().assistants.search();
      assert.equal(lead.assistant_id, "lead_agent");
      assert.equal((await client().assistants.get("lead_agent")).graph_id, "lead_agent");
      await client().assistants.getGraph("lead_agent");
      await client().assistants.getSchemas("lead_agent");
      const space = ["js", mount.replaceAll("/", "-")];
      await client().store.putItem(space, "k", { v: 1 });
      assert.deepEqual((await client().store.getItem(space, "k")).value, { v: 1 });
      assert.equal((await client().store.searchItems(space)).items.length, 1);
      assert.ok((await client().store.listNamespaces({ prefix: ["js"] })).namespaces.length >= 1);
      await client().store.deleteItem(space, "k");
    });
  });
}

test("the client reconnects by itself when the server is restarted", async () => {
  const client = new Client({ apiUrl: `${server.url}/api`, apiKey: null });
  const { thread_id: id } = await client.threads.create();
  const parts = [];
  let restarted = false;
  for await (const part of client.runs.stream(id, "lead_agent", { input: tools(5, 15), streamMode: ["values"] })) {
    if (part.event) parts.push(part);
    const results = part.event === "values" ? part.data.messages.filter((message) => message.type === "tool").length : 0;
    if (results >= 2 && !restarted) {
      restarted = true;
      await server.restart();
    }
  }
  assert.equal(parts.at(-1).event, "end");
  const final = parts.filter((part) => part.event === "values").at(-1).data.messages;
  assert.equal(final.filter((message) => message.type === "tool").length, 5);
});
