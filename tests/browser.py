"""A real browser without a window, for tests of pages: Chromium, by the WebDriver protocol of its own driver.

    with browser(width=1600) as page:
        page.open(path)
        page.run("return document.title")

`AUTODIFF_REQUIRE_BROWSER=1` makes a missing browser an error; without it such tests are left out.
"""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
REQUIRED = os.environ.get("AUTODIFF_REQUIRE_BROWSER", "0") not in ("", "0")

needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER) and not REQUIRED, reason="Chromium and its driver are not installed"
)

#: What the protocol calls keys that are no characters.
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowUp": "\ue013", "ArrowDown": "\ue015", "ArrowRight": "\ue014"}


class Page:
    """A session of the driver."""

    def __init__(self, address):
        self._address = address
        self.messages = []

    def _ask(self, method, path, **body):
        data = None if method == "GET" else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def start(self, *arguments):
        options = {
            "goog:chromeOptions": {
                "binary": BROWSER,
                "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *arguments],
            },
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._ask("POST", "/session", capabilities={"alwaysMatch": options})
        self._address += f"/session/{made['sessionId']}"

    def command(self, name, **parameters):
        """A command of Chromium's own protocol, such as Network.emulateNetworkConditions."""
        return self._ask("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def open(self, address):
        self._ask("POST", "/url", url=str(address) if "://" in str(address) else f"file://{address}")

    def run(self, script, *arguments):
        """The value of a JavaScript function's body."""
        return self._ask("POST", "/execute/sync", script=script, args=list(arguments))

    def wait(self, condition, seconds=30):
        """Wait until an expression is true; gives its value."""
        end = time.monotonic() + seconds
        while not (found := self.run(f"return {condition}")):
            assert time.monotonic() < end, f"{condition} did not become true; the console says {self.console()}"
            time.sleep(0.02)
        return found

    def press(self, *keys):
        """Press keys, one after the other, where the focus is."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def click(self, x, y, times=1):
        """Click at a place in the window."""
        move = {"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)}
        presses = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] * times
        self._ask("POST", "/actions", actions=[{"type": "pointer", "id": "mouse", "actions": [move, *presses]}])

    def console(self):
        """Errors and warnings that the page has given so far."""
        self.messages += [entry["message"] for entry in self._ask("POST", "/se/log", type="browser")]
        return self.messages

    def picture(self, path):
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def end(self):
        self._ask("DELETE", "")


@contextmanager
def browser(width=1600, height=950, *arguments):
    """A page of a browser that is closed at the end."""
    assert BROWSER and DRIVER, "Chromium and its driver are required"
    driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = next(line.split()[-1].strip(".") for line in driver.stdout if "started successfully on port" in line)
        page = Page(f"http://127.0.0.1:{port}")
        page.start(f"--window-size={width},{height}", *arguments)
        try:
            yield page
        finally:
            page.end()
    finally:
        driver.terminate()
        driver.wait()
        driver.stdout.close()
