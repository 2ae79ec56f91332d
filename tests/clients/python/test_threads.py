"""`client.threads`: every method that the classic protocol has."""

import uuid

import pytest
from conftest import plain
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError


async def talk(client, turns=1):
    thread = (await client.threads.create())["thread_id"]
    values = None
    for _ in range(turns):
        values = await client.runs.wait(thread, "lead_agent", input=plain())
    return thread, values


async def test_create(client):
    thread_id = str(uuid.uuid4())
    made = await client.threads.create(thread_id=thread_id, metadata={"a": 1})
    assert (made["thread_id"], made["status"], made["metadata"]) == (thread_id, "idle", {"a": 1})
    assert (await client.threads.create(thread_id=thread_id, if_exists="do_nothing"))["metadata"] == {"a": 1}
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread_id, if_exists="raise")
    with pytest.raises(UnprocessableEntityError):
        await client.threads.create(thread_id="a/../b")


async def test_create_with_supersteps(client):
    thread = await client.threads.create(
        supersteps=[
            {"updates": [{"values": {"messages": [{"role": "user", "content": "hi"}]}, "as_node": "__input__"}]},
            {"updates": [{"values": {"messages": [{"role": "assistant", "content": "hello"}]}, "as_node": "model"}]},
        ]
    )
    state = await client.threads.get_state(thread["thread_id"])
    assert [message["content"] for message in state["values"]["messages"]] == ["hi", "hello"]


async def test_get_and_update(client):
    thread, values = await talk(client)
    got = await client.threads.get(thread)
    assert got["values"]["messages"] == values["messages"]
    updated = await client.threads.update(thread, metadata={"b": 2})
    assert updated["metadata"]["b"] == 2
    updated = await client.threads.update(thread, metadata={"c": 3})
    assert (updated["metadata"]["b"], updated["metadata"]["c"]) == (2, 3)
    with pytest.raises(NotFoundError):
        await client.threads.get(str(uuid.uuid4()))
    with pytest.raises(NotFoundError):
        await client.threads.update(str(uuid.uuid4()), metadata={})


async def test_search_and_count(client):
    tag = uuid.uuid4().hex
    ids = [(await client.threads.create(metadata={"tag": tag, "n": n}))["thread_id"] for n in range(5)]
    assert await client.threads.count(metadata={"tag": tag}) == 5
    found = await client.threads.search(metadata={"tag": tag}, limit=3)
    assert [thread["thread_id"] for thread in found] == ids[::-1][:3]
    rest = await client.threads.search(metadata={"tag": tag}, limit=3, offset=3)
    assert [thread["thread_id"] for thread in rest] == ids[::-1][3:]
    assert len(await client.threads.search(metadata={"tag": tag, "n": 2})) == 1
    assert [t["thread_id"] for t in await client.threads.search(ids=ids[:2], sort_by="created_at", sort_order="asc")] == ids[:2]
    assert await client.threads.search(metadata={"tag": tag}, status="busy") == []
    (only,) = await client.threads.search(ids=[ids[0]], select=["thread_id", "metadata"])
    assert set(only) == {"thread_id", "metadata"}


async def test_delete(client):
    thread, _ = await talk(client)
    await client.threads.delete(thread)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread)
    assert await client.threads.get_history(thread) == []


async def test_copy(client):
    thread, values = await talk(client)
    copy = await client.threads.copy(thread)
    assert copy["thread_id"] != thread
    assert (await client.threads.get_state(copy["thread_id"]))["values"]["messages"] == values["messages"]
    await client.runs.wait(copy["thread_id"], "lead_agent", input=plain())
    assert (await client.threads.get_state(thread))["values"]["messages"] == values["messages"]


async def test_prune(client):
    thread, values = await talk(client, turns=2)
    assert len(await client.threads.get_history(thread, limit=100)) > 1
    # Histories are kept as what changed: there is nothing to prune but the whole.
    assert (await client.threads.prune([thread], strategy="keep_latest"))["pruned_count"] == 0
    assert (await client.threads.get_state(thread))["values"]["messages"] == values["messages"]
    await client.threads.prune([thread], strategy="delete")
    with pytest.raises(NotFoundError):
        await client.threads.get(thread)


async def test_state_now_and_earlier(client):
    thread, values = await talk(client, turns=2)
    state = await client.threads.get_state(thread)
    assert (state["values"]["messages"], state["next"]) == (values["messages"], [])
    history = await client.threads.get_history(thread, limit=50)
    assert history[0]["checkpoint"]["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
    for entry in history:
        same = await client.threads.get_state(thread, checkpoint_id=entry["checkpoint"]["checkpoint_id"])
        assert same["checkpoint"]["checkpoint_id"] == entry["checkpoint"]["checkpoint_id"]
        by_body = await client.threads.get_state(thread, checkpoint=entry["checkpoint"])
        assert by_body["values"] == same["values"]
    assert len(same["values"].get("messages", [])) < len(values["messages"])
    with pytest.raises(NotFoundError):
        await client.threads.get_state(thread, checkpoint_id=str(uuid.uuid4()))


async def test_history_pages(client):
    thread, _ = await talk(client, turns=2)
    whole = [entry["checkpoint"]["checkpoint_id"] for entry in await client.threads.get_history(thread, limit=100)]
    paged, before = [], None
    while page := await client.threads.get_history(thread, limit=2, before=before):
        paged += [entry["checkpoint"]["checkpoint_id"] for entry in page]
        before = page[-1]["checkpoint"]
    assert paged == whole and len(whole) > 4
    parents = {entry["checkpoint"]["checkpoint_id"]: entry["parent_checkpoint"] for entry in
               await client.threads.get_history(thread, limit=100)}
    for child, parent in zip(whole, whole[1:]):
        assert parents[child]["checkpoint_id"] == parent


async def test_update_state(client):
    thread, values = await talk(client)
    written = await client.threads.update_state(thread, {"title": "Renamed"})
    state = await client.threads.get_state(thread)
    assert state["values"]["title"] == "Renamed"
    assert written["checkpoint"]["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
    assert state["values"]["messages"] == values["messages"]
    await client.threads.update_state(thread, {"messages": [{"role": "user", "content": "added"}]}, as_node="model")
    assert (await client.threads.get_state(thread))["values"]["messages"][-1]["content"] == "added"
    # From an older checkpoint: a fork.
    older = (await client.threads.get_history(thread, limit=100))[-1]["checkpoint"]
    await client.threads.update_state(thread, {"title": "Fork"}, checkpoint_id=older["checkpoint_id"])
    assert (await client.threads.get_state(thread))["values"]["title"] == "Fork"
    with pytest.raises(UnprocessableEntityError):
        await client.threads.update_state(thread, {"nonsense": 1})


@pytest.mark.parametrize("mode", ["run_modes", "lifecycle"])
async def test_join_stream_of_a_thread(client, mode):
    import asyncio

    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "lead_agent", input=plain(tokens=40, delay=20))
    parts = []

    async def read():
        async for part in await client.threads.join_stream(thread, stream_mode=mode):
            parts.append(part)
            if part.event == "run_done" and part.data["run_id"] == second["run_id"]:
                break

    second = await client.runs.create(thread, "lead_agent", input=plain(), multitask_strategy="enqueue")
    await asyncio.wait_for(read(), 30)
    done = [part.data for part in parts if part.event == "run_done"]
    assert [entry["run_id"] for entry in done] == [run["run_id"], second["run_id"]]
    assert {entry["status"] for entry in done} == {"success"}
    assert ("values" in {part.event for part in parts}) == (mode == "run_modes")


def test_the_synchronous_client(sync_client):
    thread = sync_client.threads.create(metadata={"sync": True})["thread_id"]
    sync_client.runs.wait(thread, "lead_agent", input=plain())
    state = sync_client.threads.get_state(thread)
    assert state["values"]["messages"][-1]["type"] == "ai"
    assert sync_client.threads.get_history(thread, limit=1)[0]["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
    sync_client.threads.update_state(thread, {"title": "T"})
    assert sync_client.threads.get(thread)["values"]["title"] == "T"
    sync_client.threads.delete(thread)
