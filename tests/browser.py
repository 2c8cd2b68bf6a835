"""A real browser for tests of pages: Chromium without a window, spoken to through a pipe."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 240.0  # that an answer may take: the machine may be busy
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find_program() -> str | None:
    """Where this machine has a browser, if it has one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A running Chromium."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, answers: int) -> None:
        self._process, self._commands, self._answers = process, commands, answers
        self._numbers = itertools.count(1)
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer. What happens meanwhile is kept in `events`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        for answer in self._messages(SECONDS):
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)
        raise AssertionError(f"the browser did not answer to {method}")

    def listen(self, seconds: float) -> None:
        """Take in what happens."""
        self.events += self._messages(seconds)

    def _messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + seconds
        while True:
            message, found, rest = self._rest.partition(b"\0")
            if found:
                self._rest = rest
                yield json.loads(message)
                continue
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return
            more = os.read(self._answers, 2**20)
            assert more, "the browser is gone"
            self._rest += more


class Page:
    """A page in a browser, and what went wrong on it."""

    def __init__(self, browser: Browser, file: Path, width: int, height: int, dark: bool) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Page", "Network", "Log"):
            self.call(f"{domain}.enable")
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file.resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command about this page."""
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, script: str) -> Any:
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Until an expression is true; its value."""
        end = time.monotonic() + SECONDS
        while not (value := self.evaluate(script)):
            assert time.monotonic() < end, f"never true: {script}"
            self._browser.listen(0.05)
        return value

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, scrolled into view."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView("
            "{block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of an element."""
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """From one place to another, with the button down."""
        steps = [("mousePressed", start), *(("mouseMoved", end) for _ in range(3)), ("mouseReleased", end)]
        for kind, (x, y) in steps:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def point_at(self, x: float, y: float) -> None:
        """Move the mouse there."""
        for nudge in (1, 0):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + nudge, y=y)

    def press(self, key: str, code: int) -> None:
        """A key of the keyboard."""
        text = {"text": "\r"} if key == "Enter" else ({"text": " "} if key == " " else {})
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def screenshot(self, file: Path, whole: bool = True) -> None:
        """A picture of the whole page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(picture))

    def print(self, file: Path) -> None:
        """As it comes out of a printer."""
        document = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        file.write_bytes(base64.b64decode(document))

    def complaints(self) -> list[str]:
        """Errors and warnings that the console shows, and exceptions that nobody caught."""
        self._browser.listen(0.2)
        found = []
        for event in self._mine():
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(str([argument.get("value") for argument in what["args"]]))
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """What the page asked for, beside itself and what is in it."""
        urls = [event["params"]["request"]["url"] for event in self._mine("Network.requestWillBeSent")]
        return [url for url in urls[1:] if not url.startswith(("data:", "blob:"))]

    def _mine(self, method: str | None = None) -> list[dict[str, Any]]:
        mine = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [event for event in mine if method in (None, event["method"])]


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """A browser for the time of the block."""
    program = find_program()
    assert program, "there is no browser: apt-get install chromium"
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [program, "--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={profile}",
                 "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"]  # fmt: skip
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{their_commands} 4>&{their_answers}', "bash", *words],
            pass_fds=(their_commands, their_answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(their_commands)
        os.close(their_answers)
        browser = Browser(process, commands, answers)
        try:
            yield browser
            browser.call("Browser.close")
        finally:
            process.terminate()
            process.wait(timeout=SECONDS)
            os.close(commands)
            os.close(answers)
