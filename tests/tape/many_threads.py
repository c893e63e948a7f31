"""Four threads that take turns after each few instructions."""

import sys
import threading


def in_turns(work):
    """Run work(k) for k = 0, 1, 2, 3, each in a thread of its own."""
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
