"""A TCP relay between the tool and its store that slows down, stalls, cuts or resets connections on request."""

import collections
import random
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16


class Pipe:
    """One direction of a connection: bytes wait in it until their time has come."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.waiting = collections.deque()  # (when due, bytes); no bytes: the end


class Relay:
    """Listens at a free port of 127.0.0.1 and passes everything on to the target's port.

    delay: (least, most) seconds that each piece takes on its way, drawn anew for each. stall(): nothing passes until
    flow(). cut_every: seconds that a connection lives; `reset`: with a reset rather than an end. `seed` is printed.
    """

    def __init__(self, port, delay=(0, 0), cut_every=None, reset=False, seed=1):
        self.target = ("127.0.0.1", port)
        self.delay, self.cut_every, self.reset = delay, cut_every, reset
        self.random = random.Random(seed)
        print(f"relay: delay {delay}, cut_every {cut_every}, reset {reset}, seed {seed}")
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connections, self.cuts = 0, 0
        self.pipes = {}  # source -> Pipe
        self.ends = {}  # source -> when its connection is cut
        self.stalled, self.closing = False, False
        self.refusing = False  # set: connections end as soon as they are made
        self.wake, self.waker = socket.socketpair()
        self.selector = selectors.DefaultSelector()
        self.thread = threading.Thread(target=self.work, name="relay")

    def __enter__(self):
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.closing = True
        self.waker.send(b"x")
        self.thread.join()
        for one in [*self.pipes, self.listener, self.wake, self.waker]:
            one.close()
        self.selector.close()

    def stall(self):
        self.stalled = True

    def flow(self):
        self.stalled = False
        self.waker.send(b"x")

    def life(self):
        """Half of a connection's time is fixed, half is drawn: cuts meet every part of a request."""
        return time.monotonic() + self.cut_every * (0.5 + self.random.random()) if self.cut_every else None

    def accept(self):
        one, _ = self.listener.accept()
        if self.refusing:
            one.close()
            return
        try:
            other = socket.create_connection(self.target, timeout=5)
        except OSError:
            one.close()  # the store is not there, and neither is the relay
            return
        self.connections += 1
        end = self.life()
        for source, sink in ((one, other), (other, one)):
            source.setblocking(False)
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pipes[source] = Pipe(source, sink)
            self.ends[source] = end
            self.selector.register(source, selectors.EVENT_READ)

    def drop(self, source, cut=False):
        """Ends the connection that `source` is a side of."""
        pipe = self.pipes.get(source)
        if not pipe:
            return
        self.cuts += cut
        for one in (source, pipe.sink):
            if self.pipes.pop(one, None):
                self.ends.pop(one)
                try:
                    self.selector.unregister(one)
                except KeyError:
                    pass
                if cut and self.reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.close()

    def read(self, source):
        pipe = self.pipes.get(source)
        try:
            data = source.recv(CHUNK) if pipe else b"x"
        except BlockingIOError:
            return
        except OSError:
            self.drop(source)
            return
        if pipe:
            pipe.waiting.append((time.monotonic() + self.random.uniform(*self.delay), data))
            if not data:
                self.selector.unregister(source)

    def write(self, pipe, now):
        """Passes on what is due, in order; returns when there is more to do."""
        while pipe.waiting:
            due, data = pipe.waiting[0]
            if due > now:
                return due
            if not data:
                self.drop(pipe.source)
                return None
            try:
                sent = pipe.sink.send(data)
            except BlockingIOError:
                return now + 0.01
            except OSError:
                self.drop(pipe.source)
                return None
            pipe.waiting[0] = (due, data[sent:])
            if sent == len(data):
                pipe.waiting.popleft()
        return None

    def step(self):
        """Everything that time asks for; returns when the next thing is due."""
        now = time.monotonic()
        dues = []
        for source, pipe in list(self.pipes.items()):
            end = self.ends.get(source)
            if source not in self.pipes:
                continue
            if end and now >= end:
                self.drop(source, cut=True)
                continue
            dues.append(end)
            if not self.stalled:
                dues.append(self.write(pipe, now))
        return min((due for due in dues if due), default=None)

    def work(self):
        while not self.closing:
            due = self.step()
            for key, _ in self.selector.select(None if due is None else max(0, due - time.monotonic())):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj is self.wake:
                    self.wake.recv(CHUNK)
                else:
                    self.read(key.fileobj)
