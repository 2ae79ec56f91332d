"""Uploads, artifacts, API keys and cookies: what the SDKs have no methods for, in the requests the web client makes."""

import httpx
import pytest
from conftest import Server, plain, say
from langgraph_sdk import get_client
from langgraph_sdk.errors import AuthenticationError


async def test_a_file_in_and_a_report_out(client, http):
    thread = (await client.threads.create())["thread_id"]
    files = {"files": ("notes.md", b"# Notes\n\nSales fell by 12 % in March.\n", "text/markdown")}
    sent = http.post(f"/api/threads/{thread}/uploads", files=files)
    assert sent.status_code == 200, sent.text
    assert sent.json()["files"][0]["virtual_path"] == "/mnt/user-data/uploads/notes.md"
    listed = http.get(f"/api/threads/{thread}/uploads/list").json()
    assert (listed["count"], listed["files"][0]["filename"]) == (1, "notes.md")
    values = await client.runs.wait(thread, "lead_agent", input=say("[[script:report body=40]]"))
    (path,) = values["artifacts"]
    artifact = http.get(f"/api/threads/{thread}/artifacts{path}", headers={"Range": "bytes=0-9"})
    assert (artifact.status_code, len(artifact.content)) == (206, 10)
    whole = http.get(f"/api/threads/{thread}/artifacts{path}", params={"download": "true"})
    assert whole.headers["content-disposition"].startswith("attachment")


@pytest.fixture(scope="module")
def guarded(model_url):
    """A server with login."""
    server = Server(model_url, env={"DEER_FLOW_AUTH_DISABLED": ""})
    yield server
    server.stop()


async def test_login_by_cookie_and_by_key(guarded):
    with httpx.Client(base_url=guarded.url, timeout=30) as http:
        assert http.get("/api/v1/auth/setup-status").json()["needs_setup"] is True
        account = {"email": "ada@example.org", "password": "a long enough passphrase"}
        assert http.post("/api/v1/auth/initialize", json=account).status_code == 201
        assert http.get("/api/v1/auth/me").json()["email"] == account["email"]
        csrf = {"X-CSRF-Token": http.cookies["csrf_token"]}
        assert http.post("/api/threads", json={}).status_code == 403
        assert http.post("/api/threads", json={}, headers=csrf).status_code == 200
        made = http.post("/api/v1/auth/api-keys", json={"name": "test"}, headers=csrf)
        key = made.json()["key"]
        assert key.startswith("df_")
        cookies = dict(http.cookies)

    by_key = get_client(url=f"{guarded.url}/api", api_key=key)
    thread = (await by_key.threads.create())["thread_id"]
    assert (await by_key.runs.wait(thread, "lead_agent", input=plain()))["messages"][-1]["type"] == "ai"
    bearer = get_client(url=f"{guarded.url}/api", api_key=None, headers={"Authorization": f"Bearer {key}"})
    assert (await bearer.threads.get(thread))["thread_id"] == thread

    # A key of somebody else's service, as the SDK takes it from the environment, is as if it were not there.
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    headers = {"Cookie": cookie, "X-CSRF-Token": cookies["csrf_token"]}
    mixed = get_client(url=f"{guarded.url}/api", api_key="lsv2_foreign", headers=headers)
    assert (await mixed.threads.get(thread))["thread_id"] == thread
    with pytest.raises(AuthenticationError):
        await get_client(url=f"{guarded.url}/api", api_key="lsv2_foreign").threads.get(thread)
