"""Headless Chromium, driven over the DevTools protocol; what it complains of is kept."""

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

PROGRAM = "chromium"
PATIENCE_S = 60
LIVE = "document.documentElement.classList.contains('live')"  # the script has shown an answer


@dataclass
class Tab:
    """A tab. ``complaints``: violations of the policy, exceptions, errors on the console."""

    socket: ClientWebSocketResponse
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _waiting: dict[int, "asyncio.Future[dict[str, Any]]"] = field(default_factory=dict)
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Take what the browser says, until it closes."""
        async for message in self.socket:
            if message.type is WSMsgType.TEXT:
                self._take(json.loads(message.data))

    def _take(self, said: dict[str, Any]) -> None:
        waiting = self._waiting.pop(said.get("id", 0), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(said)
        match said.get("method"), said.get("params", {}):
            case "Page.loadEventFired", _:
                self._loaded.set()
            case "Page.javascriptDialogOpening", params:
                self.complaints.append(f"a dialog: {params}")
            case "Log.entryAdded", {"entry": {"level": "error", **entry}}:
                self.complaints.append(f"{entry.get('text')} {entry.get('url', '')}")
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.complaints.append(json.dumps(details)[:500])
            case "Runtime.consoleAPICalled", {"type": "error" | "assert", "args": args}:
                self.complaints.append(json.dumps(args)[:500])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self.socket.send_json(message | ({"sessionId": self.session} if self.session else {}))
        said = await asyncio.wait_for(self._waiting[number], PATIENCE_S)
        assert "error" not in said, said["error"]
        result: dict[str, Any] = said["result"]
        return result

    async def open(self, url: str) -> None:
        """Go to a page and wait until it is loaded."""
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), PATIENCE_S)

    async def loads(self, expression: str) -> None:
        """Evaluate an expression that has the page loaded again, and wait for that."""
        self._loaded.clear()
        await self.value(expression)
        await asyncio.wait_for(self._loaded.wait(), PATIENCE_S)

    async def value(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        said = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, json.dumps(said["exceptionDetails"])[:1000]
        return said["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true; it is looked at again after each frame."""
        script = f"""new Promise((done) => {{
            const look = () => (({expression}) ? done(true) : requestAnimationFrame(look));
            look();
        }})"""
        await self.value(script)

    async def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Show the page in this size, light or dark, without motion."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, motion])

    async def without_scripts(self) -> None:
        """Run no script of the page from now on."""
        await self.call("Emulation.setScriptExecutionDisabled", value=True)

    async def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent",
                **{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, **extra},
            )

    async def picture(self, file: Path, *, whole: bool = True) -> None:
        """Keep a picture of the page."""
        said = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        await asyncio.to_thread(file.write_bytes, base64.b64decode(said["data"]))


@contextmanager
def browser() -> Iterator[str]:
    """A browser without tabs; the address of its DevTools."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                *(shutil.which(PROGRAM) or PROGRAM, "--headless", "--no-sandbox", "--disable-gpu"),
                *(f"--user-data-dir={profile}", "--remote-debugging-port=0", "--hide-scrollbars"),
                *("--disable-dev-shm-usage", "--no-first-run", "about:blank"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            yield _address(process.stderr)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


@asynccontextmanager
async def tab_of(url: str) -> AsyncIterator[Tab]:
    """A new tab of a browser that shares nothing with its other tabs."""
    async with ClientSession() as client, client.ws_connect(url, max_msg_size=0) as socket:
        tab = Tab(socket)
        listening = asyncio.create_task(tab.listen())
        await _attach(tab)
        yield tab
        listening.cancel()


@asynccontextmanager
async def browsing() -> AsyncIterator[Tab]:
    """A browser of its own with one empty tab."""
    with browser() as url:
        async with tab_of(url) as tab:
            yield tab


def _address(lines: Any) -> str:
    """Where the browser says that it listens."""
    for line in lines:
        if line.startswith("DevTools listening on "):
            return str(line.split()[-1])
    raise AssertionError("Chromium did not start")


async def _attach(tab: Tab) -> None:
    context = await tab.call("Target.createBrowserContext", disposeOnDetach=True)
    made = await tab.call("Target.createTarget", url="about:blank", **context)
    attached = await tab.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
    tab.session = attached["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        await tab.call(f"{domain}.enable")
