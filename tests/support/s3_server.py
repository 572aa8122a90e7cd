#!/usr/bin/env python3
"""An S3 server for tests, and a gate before it that checks signatures and makes faults.

    s3_server.py store PORT_FILE                  moto's S3 on a free port, which is written into PORT_FILE
    s3_server.py gate PORT_FILE STORE_PORT [PORT] the gate; PORT: the one it had before it was killed

The gate takes orders at /_gate as a JSON object in a POST, and answers with what it has counted:
    fail        answer so many of the next requests with status 500
    unknown     answer so many of the next requests with status 501: the server does not know them
    drop        close the connection in the middle of so many of the next requests with a body
    damage      change a byte of so many of the next bodies
    hang        true: take requests and never answer; false: answer again
    delay_s     wait so long before each answer
    forbid      answer requests whose line begins with this text with status 403; "": none
    expired     true: refuse the key id "old" as expired; a text: from the first request on whose line holds it
    clock_s     the gate's clock is so far ahead; requests signed 15 minutes away from it are refused
    tells_no_date  true: answers have a header Date that tells nothing
    region      where the gate says that buckets are; requests signed for another region are sent there
    told_in     "header" (status 301, as of buckets) or "body" (status 400, as of signatures): how region is told
    hide_total  true: Content-Range of answers ends with /*, as of servers that do not know how long an object is
    most_bytes  answers to ranges have at most so many bytes; 0: as many as were asked for
    match       fail, unknown, drop, damage, hang and gather concern only requests whose line ("PUT
                /bucket/key?query") holds this text
    gather      hold requests until so many of them wait at once, at most a minute; 0: do not
    most_at_once  counts: the most requests that were waiting for an answer at one moment; 0 begins anew
It knows the keys "test" and "old", whose secret is "secret", and verifies signatures with botocore, which is not the
code under test. A key id "nobody" is refused.
"""
import calendar
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def write_port(path, port):
    with open(path + ".new", "w") as file:
        file.write(str(port))
    os.rename(path + ".new", path)


def run_store(port_file):
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    write_port(port_file, server.get_host_and_port()[1])
    threading.Event().wait()


class Gate:
    """What the gate was told and what it has seen."""

    def __init__(self, store_port):
        self.store_port = store_port
        self.lock = threading.Lock()
        self.orders = {"fail": 0, "unknown": 0, "drop": 0, "damage": 0, "hang": False, "delay_s": 0, "expired": False,
                       "clock_s": 0, "tells_no_date": False, "region": "", "told_in": "header", "hide_total": False,
                       "most_bytes": 0, "gather": 0, "most_at_once": 0, "match": ""}
        self.lines = []  # of all requests
        self.refused = 0
        self.waiting = 0  # requests that have not been answered

    def lacks_others(self, line):
        return self.orders["match"] in line and self.orders["gather"] > self.orders["most_at_once"]

    def takes(self, order, line):
        """Whether this request has to suffer `order`; counts it down."""
        with self.lock:
            if self.orders[order] <= 0 or self.orders["match"] not in line:
                return False
            self.orders[order] -= 1
            return True


def signature_problem(method, target, headers, body):
    """"" for a request signed as botocore would; else the code of S3."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    import hashlib

    given = headers.get("authorization", "")
    if not given:
        return "AccessDenied"
    parts = dict(item.strip().split("=", 1) for item in given.split(" ", 1)[1].split(","))
    key_id, _, region, service, _ = parts["Credential"].split("/")
    if key_id not in ("test", "old"):
        return "InvalidAccessKeyId"
    digest = headers.get("x-amz-content-sha256", "")
    if digest != hashlib.sha256(body).hexdigest():
        return "XAmzContentSHA256Mismatch"
    auth = S3SigV4Auth(Credentials(key_id, "secret"), service, region)
    signed = {name: headers[name] for name in parts["SignedHeaders"].split(";")}
    request = AWSRequest(method=method, url="http://" + headers["host"] + target, headers=signed, data=body)
    path, _, query = target.partition("?")
    request.context["timestamp"] = headers["x-amz-date"]
    request.context["payload_signing_enabled"] = True
    request.url = "http://" + headers["host"] + path
    request.params = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return "" if auth.signature(text, request) == parts["Signature"] else "SignatureDoesNotMatch"


def make_handler(gate):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def date_time_string(self, timestamp=None):
            if gate.orders["tells_no_date"]:
                return "today"
            return super().date_time_string((time.time() if timestamp is None else timestamp) + gate.orders["clock_s"])

        def is_signed_elsewhere(self, headers):
            region = gate.orders["region"]
            return region and f"/{region}/s3/" not in headers.get("authorization", "")

        def is_signed_at_another_time(self, headers):
            signed = headers.get("x-amz-date")
            if not signed:
                return False
            signed_s = calendar.timegm(time.strptime(signed, "%Y%m%dT%H%M%SZ"))
            return abs(signed_s - time.time() - gate.orders["clock_s"]) > 900

        def answer(self, status, body, headers=()):
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in headers):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def refuse(self, status, code, more="", headers=()):
            with gate.lock:
                gate.refused += 1
            text = f"<Error><Code>{code}</Code><Message>said the gate</Message>{more}</Error>"
            self.answer(status, text.encode(), headers)

        def send_to_region(self):
            region = gate.orders["region"]
            if gate.orders["told_in"] == "header":
                return self.refuse(301, "PermanentRedirect", headers=[("x-amz-bucket-region", region)])
            return self.refuse(400, "AuthorizationHeaderMalformed", f"<Region>{region}</Region>")

        def take_order(self, body):
            with gate.lock:
                gate.orders.update(json.loads(body or b"{}"))
                seen = {"lines": gate.lines, "refused": gate.refused, "orders": gate.orders}
                text = json.dumps(seen).encode()
            self.answer(200, text)

        def shorten_range(self):
            first, _, last = self.headers.get("range", "").removeprefix("bytes=").partition("-")
            if last and gate.orders["most_bytes"] > 0:
                last = min(int(last), int(first) + gate.orders["most_bytes"] - 1)
                self.headers.replace_header("range", f"bytes={first}-{last}")

        def pass_on(self, body):
            self.shorten_range()
            store = http.client.HTTPConnection("127.0.0.1", gate.store_port, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            store.request(self.command, self.path, body=body, headers=headers)
            reply = store.getresponse()
            hop = ("connection", "transfer-encoding", "server", "date")
            kept = [(name, value) for name, value in reply.getheaders() if name.lower() not in hop]
            if gate.orders["hide_total"]:
                kept = [(name, value.split("/")[0] + "/*" if name.lower() == "content-range" else value)
                        for name, value in kept]
            self.answer(reply.status, reply.read(), kept)
            store.close()

        def handle_request(self):
            line = f"{self.command} {self.path}"
            if self.command in ("PUT", "POST") and "Content-Length" not in self.headers:
                self.close_connection = True
                return self.refuse(411, "MissingContentLength")
            length = int(self.headers.get("Content-Length", 0))
            if self.path == "/_gate":
                return self.take_order(self.rfile.read(length))
            with gate.lock:
                gate.lines.append(line)
            if length > 0 and gate.takes("drop", line):
                self.rfile.read(length // 2)
                self.close_connection = True
                self.connection.close()
                return None
            body = self.rfile.read(length)
            while gate.orders["hang"] and gate.orders["match"] in line:
                time.sleep(0.05)
            with gate.lock:
                is_counted = gate.orders["match"] in line
                gate.waiting += is_counted
                gate.orders["most_at_once"] = max(gate.orders["most_at_once"], gate.waiting)
            time.sleep(gate.orders["delay_s"])
            patience_end = time.monotonic() + 60
            while gate.lacks_others(line) and time.monotonic() < patience_end:
                time.sleep(0.01)
            with gate.lock:
                gate.waiting -= is_counted
            if gate.orders.get("forbid") and line.startswith(gate.orders["forbid"]):
                return self.refuse(403, "AccessDenied")
            if gate.takes("fail", line):
                return self.refuse(500, "InternalError")
            if gate.takes("unknown", line):
                return self.refuse(501, "NotImplemented")
            headers = {name.lower(): value for name, value in self.headers.items()}
            expired = gate.orders["expired"]
            if isinstance(expired, str) and expired in line:
                gate.orders["expired"] = expired = True
            if expired is True and "Credential=old/" in headers.get("authorization", ""):
                return self.refuse(400, "ExpiredToken")
            if self.is_signed_elsewhere(headers):
                return self.send_to_region()
            if self.is_signed_at_another_time(headers):
                return self.refuse(403, "RequestTimeTooSkewed")
            problem = signature_problem(self.command, self.path, headers, body)
            if problem:
                return self.refuse(403, problem)
            if body and gate.takes("damage", line):
                body = bytes([body[0] ^ 1]) + body[1:]
                del self.headers["content-md5"]
            return self.pass_on(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_request

    return Handler


def run_gate(port_file, store_port, port=0):
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), make_handler(Gate(int(store_port))))
    server.daemon_threads = True
    write_port(port_file, server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("store", "gate"):
        sys.exit(__doc__.strip())
    {"store": run_store, "gate": run_gate}[sys.argv[1]](*sys.argv[2:])
