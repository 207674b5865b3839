"""A browser without a network, for the pages that the project writes; one rank and engines, for tests of training."""

import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="module")
def one_rank() -> Iterator[None]:
    """The process group of this process."""
    from tiny_training import process_group

    with process_group():
        yield


@pytest.fixture
def denormals() -> Iterator[None]:
    """A supervised training flushes denormal numbers in its process, which hypothesis refuses in later tests."""
    import torch

    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def made() -> list[Any]:
    """Engines kept alive for the whole session: deleting a vLLM engine destroys the process group."""
    return []


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium that reaches this machine alone; skipped where there is none."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed (Debian: chromium, chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    session.execute_cdp_cmd("Network.enable", {})
    yield session
    session.quit()


@pytest.fixture
def resize(browser: Any) -> Callable[[int, int], None]:
    """Gives the screen a width and height, below a width of 600 those of a telephone."""

    def metrics(width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    return metrics


@pytest.fixture
def open_page(browser: Any, resize: Callable[[int, int], None], tmp_path: Path) -> Callable[[str, int, int, int], None]:
    """Shows a page without any network at a width and height, and waits for that many figures."""

    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)

    def show(page: str, width: int, height: int, figures: int) -> None:
        path = tmp_path / "index.html"
        path.write_text(page, encoding="utf-8")
        resize(width, height)
        browser.get(path.as_uri())
        end = time.monotonic() + 60
        while browser.execute_script("return document.querySelectorAll('.chart[data-drawn]').length") < figures:
            assert time.monotonic() < end, browser.get_log("browser")
            time.sleep(0.05)

    return show


@pytest.fixture
def serious(browser: Any) -> Callable[[], list[tuple[str, str, str, list[str]]]]:
    """What axe-core finds serious or critical on the page that is shown, its contrast in light and dark."""
    # The package is not imported, so it does not need its browser driver, which is not installed.
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-playwright-python, which holds axe.min.js, is not installed (envs/dev.txt)")
    axe = Path(found.origin).with_name("axe.min.js").read_text(encoding="utf-8")

    def findings() -> list[tuple[str, str, str, list[str]]]:
        browser.execute_script(axe)
        # The description of a figure speaks for its thousands of marks.
        scope, contrast = {"exclude": [["svg.marks > g"]]}, {"runOnly": ["color-contrast"]}
        violations = []
        for scheme, options in (("light", {}), ("dark", contrast)):
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            run = "axe.run(arguments[0], arguments[1]).then(arguments[2])"
            result = browser.execute_async_script(run, scope, options)
            assert len(result["passes"]) > (0 if options else 15)
            violations += [
                (scheme, one["id"], one["impact"], [node["html"][:200] for node in one["nodes"][:3]])
                for one in result["violations"]
                if one["impact"] in ("serious", "critical")
            ]
        return violations

    return findings
