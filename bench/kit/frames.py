"""The frame exchange with a worker, as bare as it can be had (docs/wire.md)."""

import json
import socket
import struct


def frame(message):
    payload = json.dumps(message, separators=(",", ":")).encode()
    return struct.pack(">I", len(payload)) + payload


def request(path="/hello", host="127.0.0.1:8080"):
    """A frame such as the gateway sends for a GET without a body."""
    name, port = host.split(":")
    headers = [["host", host]]
    return frame({
        "id": "0123456789abcdef0123456789abcdef", "method": "GET", "path": path, "query": {},
        "headers": dict(headers), "cookies": {},
        "server": {"host": name, "port": port, "remote_addr": "127.0.0.1", "method": "GET", "url": path},
        "uploaded_files": [], "scheme": "http", "host": name, "port": port, "protocol_version": "1.1",
        "remote_addr": "127.0.0.1", "header_list": headers, "request_id": "fedcba9876543210fedcba9876543210",
        "attributes": {"request_id": "fedcba9876543210fedcba9876543210", "header_list": json.dumps(headers)},
        "body": "",
    })


class Link:
    """One side of a connection that carries frames. `receive` gives payloads."""

    def __init__(self, connection):
        self.connection = connection
        self.held = b""

    @classmethod
    def to(cls, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(path)
        return cls(connection)

    def send(self, data):
        self.connection.sendall(data)

    def receive(self):
        """A payload, or None when the other side has closed."""
        while True:
            if len(self.held) >= 4:
                end = 4 + struct.unpack_from(">I", self.held)[0]
                if len(self.held) >= end:
                    payload, self.held = self.held[4:end], self.held[end:]
                    return payload
            data = self.connection.recv(65536)
            if not data:
                return None
            self.held += data

    def close(self):
        self.connection.close()


class Http:
    """The smallest HTTP client that can keep a connection: heads end with a length."""

    def __init__(self, host, port, wrap=None):
        connection = socket.create_connection((host, port), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = wrap(connection) if wrap else connection

    @staticmethod
    def get(path, host):
        return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()

    def exchange(self, data):
        """Sends a request and reads the answer, whose status is given."""
        self.connection.sendall(data)
        held = self.connection.recv(65536)
        while b"\r\n\r\n" not in held:
            held += self._more()
        head, body = held.split(b"\r\n\r\n", 1)
        at = head.lower().find(b"content-length:")
        left = int(head[at + 15:].split(b"\r\n", 1)[0]) - len(body)
        while left > 0:
            left -= len(self._more())
        return int(head[9:12])

    def _more(self):
        data = self.connection.recv(65536)
        if not data:
            raise ConnectionError("closed within an answer")
        return data

    def close(self):
        self.connection.close()
