"""Makes and checks Amazon's signatures of version 4, by their specification and with the standard library only."""
import datetime
import hashlib
import hmac
import urllib.parse
import urllib.request


def signature(secret, scope, date, method, path, query, signed, payload):
    """Computes a signature. `path` and `query`: as in the request; `signed`: list of (lower-case name, value)."""
    pairs = sorted(tuple((pair + "=").split("=")[:2]) for pair in query.split("&") if pair)
    canonical = "\n".join([
        method, path, "&".join(f"{name}={value}" for name, value in pairs),
        "".join(f"{name}:{' '.join(value.split())}\n" for name, value in sorted(signed)),
        ";".join(sorted(name for name, _ in signed)), payload])
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def request(method, url, key, secret, region="us-east-1"):
    """Sends a signed request without a body; returns the status."""
    parts = urllib.parse.urlsplit(url)
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    payload = hashlib.sha256(b"").hexdigest()
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    signed = [("host", parts.netloc), ("x-amz-content-sha256", payload), ("x-amz-date", date)]
    value = signature(secret, scope, date, method, parts.path, parts.query, signed, payload)
    names = ";".join(sorted(name for name, _ in signed))
    headers = dict(signed[1:]) | {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={value}"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, method=method, headers=headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def check(method, target, headers, keys):
    """Returns the fault in the signature of a received request, or None. `keys`: secret by access key."""
    words = headers.get("authorization", "").replace(",", " ").split()
    if not words or words[0] != "AWS4-HMAC-SHA256":
        return "not signed"
    fields = dict(word.split("=", 1) for word in words[1:])
    key, scope = fields["Credential"].split("/", 1)
    if key not in keys:
        return "an unknown key"
    names = fields["SignedHeaders"].split(";")
    wanted = ["host"] + [name for name in headers if name.startswith("x-amz-")]
    if set(wanted) - set(names):
        return f"these headers are not signed: {set(wanted) - set(names)}"
    path, _, query = target.partition("?")
    value = signature(keys[key], scope, headers["x-amz-date"], method, path, query,
                      [(name, headers[name]) for name in names], headers.get("x-amz-content-sha256", ""))
    return None if hmac.compare_digest(value, fields["Signature"]) else "a wrong signature"
