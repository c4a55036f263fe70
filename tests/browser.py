"""Chromium without a window, over its debugging pipe: NUL-separated JSON on two descriptors."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
PATIENCE = 30.0  # seconds, for the slowest machine


class Browser:
    """One browser with one page, and all it complained of and asked for."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self._read, self._write, self._buffer, self._number = ours_in, ours_out, b"", 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.loaded = 0

        def descriptors() -> None:  # it reads from 3 and writes to 4
            spare_in, spare_out = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(spare_in, 3)
            os.dup2(spare_out, 4)

        self._process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run", "--hide-scrollbars",
             f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer; what happens meanwhile is noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"]))
        elif event == "Log.entryAdded":
            self.complaints.append(json.dumps(about["entry"]))
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(about["args"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Page.loadEventFired":
            self.loaded += 1

    def open(self, path: Path | str) -> None:
        """Open a file or an address, and wait until it is loaded."""
        before = self.loaded
        url = path if isinstance(path, str) else path.resolve().as_uri()
        self.call("Page.navigate", url=url)
        while self.loaded == before:
            self._receive()

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; of a promise, what it promises."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Press the first button that fits, with the mouse."""
        place = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def size(self, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
        """A window of that size, of a reader who likes it light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What is to be seen, or all of the page, as a PNG file."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it is printed."""
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(data["data"]))
