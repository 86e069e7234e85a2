"""A TCP relay between the tool and its store that delays, stalls, cuts or resets connections on request."""

import collections
import random
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16


class Pipe:
    """One direction of a connection, in which bytes wait until they are due."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.waiting = collections.deque()  # (when due, bytes); no bytes: the end


class Relay:
    """Listens at a free port of 127.0.0.1 and forwards everything to the target's port.

    delay: (least, most) seconds of delay, drawn for each piece. stall(): nothing passes until flow(). cut_every:
    seconds that a connection lives; `reset`: it then ends with a reset instead of a close. `seed` is printed.
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
        self.refusing = False  # if set, new connections are closed at once
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
        """The time of a connection's cut, partly random, so that cuts strike every part of a request; None: no cut."""
        return time.monotonic() + self.cut_every * (0.5 + self.random.random()) if self.cut_every else None

    def accept(self):
        one, _ = self.listener.accept()
        if self.refusing:
            one.close()
            return
        try:
            other = socket.create_connection(self.target, timeout=5)
        except OSError:
            one.close()  # without the store the relay does not answer either
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
        """Ends the connection of which `source` is one side."""
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
        """Sends the pieces that are due, in order; returns the time of the next one, or None."""
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
        """Does everything that is due; returns the time at which something is due next, or None."""
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
