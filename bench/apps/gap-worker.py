"""A worker that spends 1 to 2 ms on a request and writes down how long it stood idle before it.

It speaks the wire contract: --socket PATH, a line to HEDGEROW_READY_FD, frames on kept connections.
The gaps (microseconds) go to the file that BENCH_GAPS names, at its end."""

import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kit.frames import Link, frame  # noqa: E402

GAPS = []


def finish(*_):
    with open(os.environ["BENCH_GAPS"], "w", encoding="utf-8") as file:
        file.writelines(f"{gap}\n" for gap in GAPS)
    os._exit(0)


def main():
    path = sys.argv[sys.argv.index("--socket") + 1]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    signal.signal(signal.SIGTERM, finish)
    ready = os.environ.get("HEDGEROW_READY_FD")
    if ready:
        os.write(int(ready), b'{"ready":true,"capabilities":["keep_alive"]}\n')
        os.close(int(ready))
    clock = time.perf_counter_ns
    while True:
        link, freed = Link(listener.accept()[0]), None
        while (payload := link.receive()) is not None:
            came = clock()
            if freed is not None:
                GAPS.append((came - freed) / 1000)
            answer = frame({"id": json.loads(payload)["id"], "status": 200, "headers": {}, "body": "ok\n"})
            # Work of 1 to 2 ms, as a wait: a busy worker would be measured against its own load.
            time.sleep(0.001 + (came % 1000) / 1e6)
            link.send(answer)
            freed = clock()
        link.close()


main()
