"""A headless Chromium, spoken to through a pipe: the DevTools protocol, without another package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any


def chromium() -> str | None:
    """The browser's path; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One tab. `messages` are all events since the last `open`."""

    def __init__(self, profile: Path):
        path = chromium()
        assert path is not None
        theirs_in, self.out = os.pipe()
        self.read, theirs_out = os.pipe()
        command = (
            'exec "$0" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe '
            f'--disable-background-networking --no-first-run --user-data-dir="$1" 3<&{theirs_in} 4>&{theirs_out}'
        )
        self.process = subprocess.Popen(
            ["bash", "-c", command, path, str(profile)], pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.messages, self.count, self.session = b"", [], 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        self.count += 1
        mine = self.count
        message: dict[str, Any] = {"id": mine, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda m: m.get("id") == mine)
        assert "error" not in answer, answer
        return answer["result"]

    def _until(self, wanted, seconds: float = 90) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while True:
            while b"\0" in self.buffer:
                text, _, self.buffer = self.buffer.partition(b"\0")
                message = json.loads(text)
                self.messages.append(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self.read], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            self.buffer += os.read(self.read, 1 << 20)

    def open(self, page: Path, width: int = 1200, height: int = 900, media: str = "", scheme: str = "light") -> None:
        """Show a file at a window's width, for the screen or for print, in light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media=media, features=[feature])
        self.messages.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        if not any(m.get("method") == "Page.loadEventFired" for m in self.messages):
            self._until(lambda m: m.get("method") == "Page.loadEventFired")

    def value(self, script: str) -> Any:
        """What an expression gives on the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[Any]:
        """Errors of the console since `open`."""
        found = []
        for message in self.messages:
            method, params = message.get("method"), message.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params)
            elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
                found.append(params["entry"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
                found.append(params)
        return found

    def requests(self) -> list[str]:
        """Everything asked for since `open`, the page itself included."""
        sent = [m["params"]["request"]["url"] for m in self.messages if m.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
        os.close(self.out)
        os.close(self.read)
