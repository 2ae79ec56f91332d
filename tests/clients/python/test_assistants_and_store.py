"""`client.assistants` and `client.store`."""

import uuid

import pytest
from langgraph_sdk.errors import NotFoundError


async def test_assistants(client):
    found = await client.assistants.search()
    assert (found[0]["assistant_id"], found[0]["graph_id"]) == ("lead_agent", "lead_agent")
    assert (await client.assistants.get("lead_agent"))["name"] == found[0]["name"]
    assert await client.assistants.count() >= 1
    assert (await client.assistants.get_graph("lead_agent"))["nodes"] is not None
    assert (await client.assistants.get_schemas("lead_agent"))["graph_id"] == "lead_agent"
    assert isinstance(await client.assistants.get_subgraphs("lead_agent"), dict)
    assert isinstance(await client.assistants.get_versions("lead_agent"), list)
    with pytest.raises(NotFoundError):
        await client.assistants.get("nobody")


async def test_store_items(client):
    space = ["memories", uuid.uuid4().hex]
    for n in range(3):
        await client.store.put_item(space, key=f"k{n}", value={"n": n, "kind": "odd" if n % 2 else "even"})
    item = await client.store.get_item(space, key="k1")
    assert (item["value"], item["namespace"], item["key"]) == ({"n": 1, "kind": "odd"}, space, "k1")
    await client.store.put_item(space, key="k1", value={"n": 10, "kind": "even"})
    found = await client.store.search_items(space, filter={"kind": "even"})
    assert sorted(entry["key"] for entry in found["items"]) == ["k0", "k1", "k2"]
    assert len((await client.store.search_items(space, limit=1, offset=1))["items"]) == 1
    await client.store.delete_item(space, key="k0")
    with pytest.raises(NotFoundError):
        await client.store.get_item(space, key="k0")
    spaces = await client.store.list_namespaces(prefix=["memories"])
    assert space in spaces["namespaces"]
    shallow = await client.store.list_namespaces(prefix=["memories"], max_depth=1)
    assert shallow["namespaces"] == [["memories"]]


def test_the_synchronous_client(sync_client):
    space = ["sync", uuid.uuid4().hex]
    sync_client.store.put_item(space, key="k", value={"v": 1})
    assert sync_client.store.get_item(space, key="k")["value"] == {"v": 1}
    assert sync_client.assistants.search(limit=1)[0]["assistant_id"] == "lead_agent"
