"""`client.runs`: every method, over real HTTP."""

import asyncio
import uuid

import pytest
from conftest import plain, say, tools, until
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"]


async def collect(stream):
    return [part async for part in stream]


def text_of(parts):
    """What `messages` frames spell, by message id."""
    texts = {}
    for part in parts:
        if part.event.split("|")[0] == "messages":
            chunk = part.data[0]
            if chunk["type"] == "AIMessageChunk":
                texts[chunk["id"]] = texts.get(chunk["id"], "") + chunk["content"]
    return texts


async def test_a_stream_begins_with_metadata_and_ends_with_end(client):
    thread = await client.threads.create()
    created = []
    parts = await collect(
        client.runs.stream(
            thread["thread_id"], "lead_agent", input=plain(), stream_mode=["values", "messages-tuple"],
            on_run_created=created.append,
        )
    )
    assert parts[0].event == "metadata"
    run_id = parts[0].data["run_id"]
    assert created == [{"run_id": run_id, "thread_id": thread["thread_id"]}]
    assert parts[-1].event == "end"
    values = [part.data for part in parts if part.event == "values"]
    answer = values[-1]["messages"][-1]
    assert answer["type"] == "ai"
    assert text_of(parts)[answer["id"]] == answer["content"]
    run = await client.runs.get(thread["thread_id"], run_id)
    assert (run["status"], run["thread_id"], run["assistant_id"]) == ("success", thread["thread_id"], "lead_agent")
    assert run["total_tokens"] > 0


@pytest.mark.parametrize("mode", MODES)
async def test_every_mode_alone(client, mode):
    thread = await client.threads.create()
    parts = await collect(client.runs.stream(thread["thread_id"], "lead_agent", input=tools(), stream_mode=mode))
    names = {part.event for part in parts}
    wanted = {"messages-tuple": "messages"}.get(mode, mode)
    extra = names - {"metadata", "end", wanted}
    assert not extra, extra
    assert mode == "custom" or wanted in names
    assert not [part for part in parts if part.event == "error"]


async def test_platform_messages_mode(client):
    thread = await client.threads.create()
    parts = await collect(client.runs.stream(thread["thread_id"], "lead_agent", input=plain(), stream_mode="messages"))
    names = {part.event for part in parts}
    assert "messages/partial" in names and "messages/metadata" in names, names


async def test_updates_name_their_nodes(client):
    thread = await client.threads.create()
    parts = await collect(client.runs.stream(thread["thread_id"], "lead_agent", input=tools(), stream_mode="updates"))
    nodes = [node for part in parts if part.event == "updates" for node in part.data]
    assert "model" in nodes and "tools" in nodes


async def test_version_2_parts(client):
    thread = await client.threads.create()
    stream = client.runs.stream(
        thread["thread_id"], "lead_agent", input=plain(), stream_mode=["values"], version="v2"
    )
    parts = [part async for part in stream]
    assert {part["type"] for part in parts} >= {"metadata", "values"}
    assert all(part["interrupts"] == [] for part in parts)


async def test_wait_gives_the_values(client):
    thread = await client.threads.create()
    values = await client.runs.wait(thread["thread_id"], "lead_agent", input=plain())
    assert [message["type"] for message in values["messages"]][-1] == "ai"
    assert (await client.threads.get_state(thread["thread_id"]))["values"]["messages"] == values["messages"]


async def test_stateless_runs(client):
    values = await client.runs.wait(None, "lead_agent", input=plain())
    assert values["messages"][-1]["type"] == "ai"
    parts = await collect(client.runs.stream(None, "lead_agent", input=plain(), stream_mode="values"))
    assert parts[-1].event == "end"
    run = await client.runs.create(None, "lead_agent", input=plain())
    assert (await client.runs.join(run["thread_id"], run["run_id"]))["messages"][-1]["type"] == "ai"


async def test_batch(client):
    runs = await client.runs.create_batch([{"assistant_id": "lead_agent", "input": plain()} for _ in range(3)])
    assert len({run["run_id"] for run in runs}) == 3
    for run in runs:
        assert (await client.runs.join(run["thread_id"], run["run_id"]))["messages"][-1]["type"] == "ai"


async def test_create_join_and_list(client):
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "lead_agent", input=plain(), metadata={"mine": 1})
    assert run["status"] == "pending" and run["metadata"]["mine"] == 1
    values = await client.runs.join(thread, run["run_id"])
    assert values["messages"][-1]["type"] == "ai"
    second = await client.runs.create(thread, "lead_agent", input=plain())
    await client.runs.join(thread, second["run_id"])
    listed = await client.runs.list(thread)
    assert [entry["run_id"] for entry in listed] == [second["run_id"], run["run_id"]]
    assert [entry["run_id"] for entry in await client.runs.list(thread, limit=1, offset=1)] == [run["run_id"]]
    assert await client.runs.list(thread, status="error") == []


async def test_join_from_a_second_client_midway(client, base):
    from langgraph_sdk import get_client

    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(
        thread, "lead_agent", input=plain(tokens=60, delay=20), stream_mode=["messages-tuple", "values"]
    )
    other = get_client(url=base)
    await asyncio.sleep(0.3)
    first, second = await asyncio.gather(
        collect(client.runs.join_stream(thread, run["run_id"], stream_mode=["messages-tuple", "values"])),
        collect(other.runs.join_stream(thread, run["run_id"], stream_mode=["messages-tuple", "values"])),
    )
    final = (await client.threads.get_state(thread))["values"]["messages"][-1]
    for parts in (first, second):
        assert parts[-1].event == "end"
        assert text_of(parts)[final["id"]] == final["content"]


async def test_disconnect_and_rejoin(client):
    thread = (await client.threads.create())["thread_id"]
    seen, last, run_id = [], None, None
    async for part in client.runs.stream(
        thread, "lead_agent", input=plain(tokens=60, delay=20), stream_mode=["messages-tuple", "values"]
    ):
        seen.append(part)
        run_id = run_id or part.data["run_id"]
        last = part.id or last
        if len(text_of(seen)) and len(seen) > 12:
            break
    rest = await collect(
        client.runs.join_stream(thread, run_id, stream_mode=["messages-tuple", "values"], last_event_id=last)
    )
    final = (await client.threads.get_state(thread))["values"]["messages"][-1]
    assert text_of(seen + rest)[final["id"]] == final["content"]
    assert rest[-1].event == "end"
    again = await collect(client.runs.join_stream(thread, run_id, stream_mode=["values"], last_event_id="-1"))
    assert again[0].event == "metadata" and again[-1].event == "end"


async def test_a_reader_that_leaves_does_not_stop_the_run(client):
    thread = (await client.threads.create())["thread_id"]
    async for part in client.runs.stream(thread, "lead_agent", input=plain(tokens=30, delay=20)):
        run_id = part.data["run_id"]
        break
    await client.runs.join(thread, run_id)
    assert (await client.runs.get(thread, run_id))["status"] == "success"


async def test_on_disconnect_cancel_stops_it(client):
    thread = (await client.threads.create())["thread_id"]
    stream = client.runs.stream(
        thread, "lead_agent", input=plain(tokens=2000, delay=50), on_disconnect="cancel", stream_mode="messages-tuple"
    )
    async for part in stream:
        if part.event == "metadata":
            run_id = part.data["run_id"]
        if part.event == "messages":
            break
    await stream.aclose()

    async def stopped():
        return (await client.runs.get(thread, run_id))["status"] == "interrupted"

    await until(stopped)


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_cancel(client, action):
    thread = (await client.threads.create())["thread_id"]
    before = await client.runs.wait(thread, "lead_agent", input=plain())
    run = await client.runs.create(thread, "lead_agent", input=plain(tokens=2000, delay=50))

    async def running():
        return (await client.runs.get(thread, run["run_id"]))["status"] == "running"

    await until(running)
    await client.runs.cancel(thread, run["run_id"], wait=True, action=action)
    status = (await client.runs.get(thread, run["run_id"]))["status"]
    messages = (await client.threads.get_state(thread))["values"]["messages"]
    if action == "rollback":
        assert status == "error"
        assert messages == before["messages"]
    else:
        assert status == "interrupted"
        assert messages[: len(before["messages"])] == before["messages"]
        assert len(messages) > len(before["messages"])


async def test_cancel_many(client):
    threads = [(await client.threads.create())["thread_id"] for _ in range(2)]
    runs = [await client.runs.create(t, "lead_agent", input=plain(tokens=2000, delay=50)) for t in threads]
    await client.runs.cancel_many(thread_id=threads[0], run_ids=[runs[0]["run_id"]])

    async def status(at):
        return (await client.runs.get(threads[at], runs[at]["run_id"]))["status"]

    await until(lambda: _is(status(0), "interrupted"))
    await client.runs.cancel(threads[1], runs[1]["run_id"], wait=True)
    assert await status(1) == "interrupted"


async def _is(value, wanted):
    return (await value) == wanted


async def test_double_texting(client):
    thread = (await client.threads.create())["thread_id"]
    slow = plain(tokens=2000, delay=50)
    first = await client.runs.create(thread, "lead_agent", input=slow)
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "lead_agent", input=plain(), multitask_strategy="reject")
    second = await client.runs.create(thread, "lead_agent", input=plain(), multitask_strategy="interrupt")
    values = await client.runs.join(thread, second["run_id"])
    assert values["messages"][-1]["type"] == "ai"
    assert (await client.runs.get(thread, first["run_id"]))["status"] == "interrupted"

    third = await client.runs.create(thread, "lead_agent", input=slow)
    fourth = await client.runs.create(thread, "lead_agent", input=plain(), multitask_strategy="rollback")
    rolled = await client.runs.join(thread, fourth["run_id"])
    assert slow["messages"][0]["content"] not in [m["content"] for m in rolled["messages"][len(values["messages"]) :]]
    assert (await client.runs.get(thread, third["run_id"]))["status"] == "error"


async def test_enqueue_runs_one_after_another(client):
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread, "lead_agent", input=plain(tokens=20, delay=20))
    queued = [
        await client.runs.create(thread, "lead_agent", input=plain(), multitask_strategy="enqueue") for _ in range(2)
    ]
    await client.runs.join(thread, queued[-1]["run_id"])
    statuses = [(await client.runs.get(thread, run["run_id"]))["status"] for run in [first, *queued]]
    assert statuses == ["success"] * 3
    messages = (await client.threads.get_state(thread))["values"]["messages"]
    visible = [m for m in messages if not m["additional_kwargs"].get("hide_from_ui")]
    assert [m["type"] for m in visible] == ["human", "ai"] * 3


async def test_after_seconds(client):
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "lead_agent", input=plain(), after_seconds=1)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "pending"
    await client.runs.join(thread, run["run_id"])
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"


async def test_interrupt_before_and_resume(client):
    thread = (await client.threads.create())["thread_id"]
    parts = await collect(
        client.runs.stream(
            thread, "lead_agent", input=tools(1), interrupt_before=["tools"], stream_mode=["values", "updates"]
        )
    )
    assert any("__interrupt__" in (part.data or {}) for part in parts)
    state = await client.threads.get_state(thread)
    assert state["next"] == ["tools"]
    values = await client.runs.wait(thread, "lead_agent", input=None)
    assert values["messages"][-1]["type"] == "ai"
    assert (await client.threads.get_state(thread))["next"] == []


async def test_run_from_an_older_checkpoint(client):
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.wait(thread, "lead_agent", input=plain())
    base = (await client.threads.get_state(thread))["checkpoint"]["checkpoint_id"]
    await client.runs.wait(thread, "lead_agent", input=plain())
    values = await client.runs.wait(thread, "lead_agent", input=plain(), checkpoint_id=base)
    assert values["messages"][: len(first["messages"])] == first["messages"]
    visible = [m for m in values["messages"] if not m["additional_kwargs"].get("hide_from_ui")]
    assert [m["type"] for m in visible] == ["human", "ai"] * 2


async def test_delete(client):
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "lead_agent", input=plain())
    (run,) = await client.runs.list(thread)
    await client.runs.delete(thread, run["run_id"])
    assert await client.runs.list(thread) == []
    assert len((await client.threads.get_state(thread))["values"]["messages"]) >= 2


async def test_a_failed_model_is_an_answer_and_an_error(client):
    thread = (await client.threads.create())["thread_id"]
    values = await client.runs.wait(thread, "lead_agent", input=say(f"[[script:status code=401]] {uuid.uuid4()}"))
    assert values["messages"][-1]["additional_kwargs"]["deerflow_error_fallback"] is True
    (run,) = await client.runs.list(thread)
    assert run["status"] == "error"


async def test_what_is_wrong_is_said(client):
    with pytest.raises(NotFoundError):
        await client.runs.get("nowhere", str(uuid.uuid4()))
    thread = (await client.threads.create())["thread_id"]
    with pytest.raises(NotFoundError):
        await client.runs.create(thread, "lead_agent", input=plain(), checkpoint_id=str(uuid.uuid4()))
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create(thread, "../agent", input=plain())
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create(thread, "lead_agent", input=plain(), stream_mode="sideways")


def test_the_synchronous_client(sync_client):
    thread = sync_client.threads.create()["thread_id"]
    parts = list(sync_client.runs.stream(thread, "lead_agent", input=plain(), stream_mode=["values", "messages-tuple"]))
    assert parts[-1].event == "end"
    values = sync_client.runs.wait(thread, "lead_agent", input=plain())
    assert values["messages"][-1]["type"] == "ai"
    run = sync_client.runs.create(thread, "lead_agent", input=plain())
    joined = list(sync_client.runs.join_stream(thread, run["run_id"], stream_mode="values"))
    assert joined[-1].event == "end"
    assert sync_client.runs.join(thread, run["run_id"])["messages"][-1]["type"] == "ai"
    assert len(sync_client.runs.list(thread)) == 3
