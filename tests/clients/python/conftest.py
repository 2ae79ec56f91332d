"""The real server with a scripted model, on ports of its own, and the official clients against it."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client

DEERFLOW = os.environ["DEERFLOW"]
SCRIPTED_MODEL = os.environ["SCRIPTED_MODEL"]


class Process:
    """A child whose output is read all the time; `wait_for` finds a line in it."""

    def __init__(self, args, env=None):
        self.child = subprocess.Popen(
            args, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.append(line)

    def wait_for(self, pattern, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found.group(1)
            if self.child.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{self.child.args[0]} did not say {pattern!r}:\n{''.join(self.lines)}")

    def kill(self, how=signal.SIGKILL):
        if self.child.poll() is None:
            os.killpg(self.child.pid, how)
        self.child.wait(30)


class Server:
    """`deerflow serve` on a home of its own; `restart` keeps home and port."""

    def __init__(self, model_url, yaml="", env=None):
        self.home = tempfile.TemporaryDirectory(prefix="df-")
        config = pathlib.Path(self.home.name, "config.yaml")
        config.write_text(
            "models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n"
            f"    base_url: {model_url}\n    api_key: test-key-123456\n"
            "llm_call:\n  retry_base_delay_ms: 10\n  retry_cap_delay_ms: 20\n" + yaml
        )
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": self.home.name,
            "DEER_FLOW_HOME": self.home.name,
            "DEER_FLOW_AUTH_DISABLED": "1",
            "DEER_FLOW_LOG": os.environ.get("DEER_FLOW_LOG", "warn"),
            **(env or {}),
        }
        self.port = "0"
        self.start()

    def start(self):
        self.process = Process([DEERFLOW, "serve", "--port", self.port], self.env)
        self.url = self.process.wait_for(r"(http://[0-9.:]+)")
        self.port = self.url.rsplit(":", 1)[1]

    def restart(self, how=signal.SIGKILL):
        self.process.kill(how)
        self.start()

    def stop(self):
        self.process.kill(signal.SIGTERM)
        self.home.cleanup()


@pytest.fixture(scope="session")
def model_url():
    model = Process([SCRIPTED_MODEL, "--port", "0"])
    yield model.wait_for(r"on (http://\S+)")
    model.kill()


@pytest.fixture(scope="session")
def server(model_url):
    server = Server(model_url)
    yield server
    server.stop()


@pytest.fixture(params=["/api", "/api/langgraph"])
def base(server, request):
    """Both mounts."""
    return server.url + request.param


@pytest.fixture
def client(base):
    return get_client(url=base)


@pytest.fixture
def sync_client(base):
    return get_sync_client(url=base)


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=30) as http:
        yield http


def say(text):
    return {"messages": [{"role": "user", "content": text}]}


def plain(tokens=20, delay=0):
    """A marker for the scripted model, made unlike any other."""
    return say(f"[[script:plain tokens={tokens} delay_ms={delay}]] {uuid.uuid4()}")


def tools(rounds=2, delay=0):
    return say(f"[[script:tools n={rounds} tokens=10 delay_ms={delay}]] {uuid.uuid4()}")


async def until(check, seconds=20):
    """Waits until an async check gives something true, and gives that."""
    import asyncio

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := await check():
            return found
        await asyncio.sleep(0.03)
    raise AssertionError("it did not happen in time")
