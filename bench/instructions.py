"""Instructions of the gateway for one request, by callgrind.

A run with n requests and one with 2n; the difference is n requests without the start. One runtime
thread, so that the count repeats. Not a time, and so it may be compared with the table that is
committed: `instructions.json`. `BENCH_WRITE=1` writes that file, more than 3 % over it is a failure."""

import collections
import json
import os
import re
import socket as socketlib
import subprocess
import threading

from kit import frames, machine, servers, table

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
TOLERANCE = 1.03

# What is asked, beside the path: the load of a plain client, and that of a browser.
BROWSER = (
    "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n"
    "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "accept-language: en-US,en;q=0.5\r\naccept-encoding: gzip, deflate, br, zstd\r\n"
    "cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\nsec-fetch-dest: document\r\n"
    "sec-fetch-mode: navigate\r\nsec-fetch-site: none\r\nupgrade-insecure-requests: 1\r\n"
)
CASES = {
    "GET, one header": ("/hello", "", b""),
    "GET, a browser's headers": ("/hello", BROWSER, b""),
    "POST, 4 KiB echoed": ("/echo", "content-type: text/plain\r\n", b"x" * 4096),
}


def worker(folder):
    """A worker in a thread of this program, that keeps its connection and takes raw bodies."""
    path = os.path.join(folder, "worker.sock")
    listener = socketlib.socket(socketlib.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        link = frames.Link(listener.accept()[0])
        told = {"capabilities": ["keep_alive", "raw_body"]}
        while (payload := link.receive()) is not None:
            request = json.loads(payload)
            link.send(frames.frame({
                "id": request["id"], "status": 200, "headers": {"content-type": "text/plain; charset=utf-8"},
                "body": request["body"] or "hello\n", **told,
            }))
            told = {}
        link.close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return path


def count(binary, case, requests):
    """Instructions in all, and by function."""
    path, headers, body = case
    with servers.scratch() as folder:
        out = os.path.join(folder, "callgrind")
        wrap = [machine.program("valgrind"), "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]
        # Only the gateway itself is under callgrind, so it finds its worker rather than starts it.
        socket = worker(folder)
        flags = {"worker-sockets": socket, "worker-connect-timeout-ms": 60000, "worker-read-timeout-ms": 60000,
                 "server-request-timeout-ms": 60000}
        with servers.hedgerow(binary, flags, env={"TOKIO_WORKER_THREADS": "1"}, wrap=wrap) as server:
            host = server.url.split("//", 1)[1]
            length = f"content-length: {len(body)}\r\n" if body else ""
            data = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}{length}\r\n".encode() + body
            client = frames.Http(*host.split(":"))
            for _ in range(requests):
                if (status := client.exchange(data)) != 200:
                    raise machine.Failed(f"the answer was {status}")
            client.close()
        with open(out, encoding="utf-8", errors="replace") as file:
            total = int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M).group(1))
        text = subprocess.run([machine.program("callgrind_annotate", "valgrind"), "--threshold=100", out],
                              capture_output=True, text=True, errors="replace").stdout
    functions = collections.Counter()
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \([\s\d.]+%\)\s+(?:\S*?):(.+?)(?: \[.*\])?$", line)
        if found:
            functions[found.group(2)] += int(found.group(1).replace(",", ""))
    return total, functions


def crate(function):
    names = re.findall(r"\b(hedgerow_\w+|hyper(?:_util)?|tokio(?:_util)?|http(?:_body)?|httparse|httpdate|bytes|serde_json|mio|mi_\w+)\b", function)
    if not names:
        return "libc, core and the rest"
    # A generic function of a library that works for one of ours is the library's.
    return "mimalloc" if names[0].startswith("mi_") else names[0]


def run(options):
    requests = 300 if options.quick else 1500
    cases = dict(list(CASES.items())[:1]) if options.quick else CASES
    committed = {}
    if os.path.exists(TABLE):
        with open(TABLE, encoding="utf-8") as file:
            committed = json.load(file)
    rows, result, worse = [], {}, []
    for name, case in cases.items():
        once, _ = first = count(options.binary, case, requests)
        twice, _ = second = count(options.binary, case, 2 * requests)
        result[name] = each = round((twice - once) / requests)
        before = committed.get(name)
        rows.append([name, f"{each:,}", f"{before:,}" if before else "", f"{(each / before - 1) * 100:+.1f} %" if before else ""])
        if before and each > before * TOLERANCE:
            worse.append(name)
        if name == next(iter(CASES)):
            functions = second[1]
            functions.subtract(first[1])
    print(table.markdown(["", "instructions a request", "committed", "change"], rows) + "\n")
    crates = collections.Counter()
    for function, cost in functions.items():
        crates[crate(function)] += cost
    each = result[next(iter(CASES))]
    print(f"Where they are spent ({next(iter(CASES))}), by crate of the function itself:\n")
    print(table.markdown(["", "instructions", "share"], [
        [name, f"{cost / requests:,.0f}", f"{cost / requests / each * 100:.0f} %"] for name, cost in crates.most_common(12)
    ]) + "\n")
    if os.environ.get("BENCH_FUNCTIONS"):
        for function, cost in functions.most_common(int(os.environ["BENCH_FUNCTIONS"])):
            print(f"{cost / requests:10,.0f}  {function[:150]}")
        print()
    if os.environ.get("BENCH_WRITE") and not options.quick:
        with open(TABLE, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
    elif worse and not options.quick:
        raise machine.Failed(f"more than 3 % over the committed table: {', '.join(worse)}")
    return result
