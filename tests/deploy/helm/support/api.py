"""A Kubernetes API that knows a few objects, for Helm's `lookup`."""
import http.server
import json
import threading

KINDS = {"Secret": ("v1", "secrets"), "StatefulSet": ("apps/v1", "statefulsets")}


class Api:
    """Api(KIND=OBJECT, ...): whatever the name, there is this object of the kind, and none of another kind."""

    def __init__(self, **objects):
        self.objects = objects
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = api.answer(self.path.partition("?")[0])
                body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                                            "reason": "NotFound"}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, path):
        if path == "/version":
            return {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            version = {"groupVersion": "apps/v1", "version": "v1"}
            group = {"name": "apps", "versions": [version], "preferredVersion": version}
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
        if path in ("/api/v1", "/apis/apps/v1"):
            group = path.removeprefix("/api/").removeprefix("/apis/")
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [
                {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind,
                 "verbs": ["get", "list"]} for kind, (of, plural) in KINDS.items() if of == group]}
        for kind, inner in self.objects.items():
            version, plural = KINDS[kind]
            _, found, name = path.partition(f"/{plural}/")
            if found:
                return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **inner}
        return None
