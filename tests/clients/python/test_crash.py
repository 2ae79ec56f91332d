"""A server that is killed while clients watch."""

import asyncio

import httpx
import pytest
from conftest import Server, plain, tools, until
from langgraph_sdk import get_client


@pytest.fixture
def own_server(model_url):
    server = Server(model_url)
    yield server
    server.stop()


async def watch(client, thread, run_id):
    """Reads to the end, rejoining with the last event id whenever the connection breaks."""
    parts, last = [], None
    for _ in range(200):
        try:
            async for part in client.runs.join_stream(
                thread, run_id, stream_mode=["messages-tuple", "values"], last_event_id=last
            ):
                parts.append(part)
                last = part.id or last
                if part.event == "end":
                    return parts
        except Exception:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError("the run never ended")


async def test_both_readers_see_one_complete_run(own_server):
    url = f"{own_server.url}/api"
    client = get_client(url=url)
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(
        thread, "lead_agent", input=tools(rounds=6, delay=15), stream_mode=["messages-tuple", "values"]
    )
    readers = [asyncio.create_task(watch(get_client(url=url), thread, run["run_id"])) for _ in range(2)]

    async def halfway():
        state = await client.threads.get_state(thread)
        return len([m for m in state["values"].get("messages", []) if m["type"] == "tool"]) >= 2

    await until(halfway)
    own_server.restart()
    client = get_client(url=url)
    for parts in await asyncio.gather(*readers):
        final = [part.data for part in parts if part.event == "values"][-1]["messages"]
        ids = [message["id"] for message in final]
        assert len(ids) == len(set(ids))
        assert len([m for m in final if m["type"] == "tool"]) == 6
        assert final[-1]["type"] == "ai"
    # The script makes files and presents none, which is no success; but that, and nothing else, is what went wrong.
    (row,) = [row for row in (await console(own_server))["runs"] if row["run_id"] == run["run_id"]]
    assert (row["status"], row["error"].split(":")[0]) == ("error", "Artifact delivery incomplete")


async def console(server):
    async with httpx.AsyncClient(base_url=server.url) as http:
        return (await http.get("/api/console/runs")).json()


async def test_a_finished_run_replays_after_a_restart(own_server):
    client = get_client(url=f"{own_server.url}/api")
    thread = (await client.threads.create())["thread_id"]
    values = await client.runs.wait(thread, "lead_agent", input=plain())
    (run,) = await client.runs.list(thread)
    own_server.restart()
    client = get_client(url=f"{own_server.url}/api")
    parts = await watch(client, thread, run["run_id"])
    assert [part.data for part in parts if part.event == "values"][-1]["messages"] == values["messages"]
    assert (await client.threads.get_state(thread))["values"]["messages"] == values["messages"]
