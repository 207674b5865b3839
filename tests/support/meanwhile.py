"""Something that goes on, again and again, while a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def meanwhile(action: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call `action` in a thread, with `seconds` before each call, until the block ends."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(seconds):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
