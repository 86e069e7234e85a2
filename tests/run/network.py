"""Runs with a bad network to their store: slow, silent for seconds, cut again and again. They end with right
results."""

import time

from judge import check_states
from relay import Relay
from stores import Etcd, Serve
from tool import Run, main, wait_for

PLAN = [[0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3], [0, 1, 2]]
SHORT = [[0, 1], [0, -1, 2]]


def ends_right(url, plan, iterations):
    """A whole run, every number judged."""
    with Run("--store", url, "--iterations", iterations, plan=plan) as run:
        run.expect(0)
        assert run.results()["passed"], run.text()
        check_states(run.results(), plan, iterations=iterations)


def through(kind, plan=PLAN, iterations=400, **behaviour):
    """A run whose store is behind a relay that behaves so; nothing of it is left in the store."""
    with kind() as store:
        with Relay(store.port, **behaviour) as relay:
            ends_right(relay.url, plan, iterations)
            assert relay.connections > 0
            assert relay.cuts > 3 or not relay.cut_every, relay.cuts
        wait_for("the end of the run's keys", lambda: not store.keys())


def a_store_that_takes_up_to_half_a_second_each_way():
    through(Serve, SHORT, 2, delay=(0.05, 0.5))


def an_etcd_that_takes_up_to_half_a_second_each_way():
    through(Etcd, SHORT, 2, delay=(0.05, 0.5))


def a_watch_that_is_cut_every_200_ms():
    through(Serve, cut_every=0.2)


def an_etcd_whose_watch_is_cut_every_200_ms():
    through(Etcd, cut_every=0.2)


def connections_that_are_reset_at_random():
    through(Serve, cut_every=0.2, reset=True, seed=2)


def an_etcd_whose_connections_are_reset_at_random():
    through(Etcd, cut_every=0.2, reset=True, seed=3)


def a_store_that_is_silent_for_seconds():
    """Once in a phase, and once while a rank joins: operations go on, changes wait."""
    with Serve() as store, Relay(store.port) as relay:
        with Run("--store", relay.url, "--iterations", 200, plan=PLAN) as run:
            for line in ("-> start phase 0", "-> end phase 1"):
                wait_for(line, lambda: line in run.text())
                relay.stall()
                end = time.monotonic() + 4  # the silence itself is what is tested: less than a lease
                wait_for("the silence", lambda: time.monotonic() > end)
                relay.flow()
            run.expect(0)
            assert run.results()["passed"]
        wait_for("the end of the run's keys", lambda: not store.keys())


main({test.__name__: test for test in (
    a_store_that_takes_up_to_half_a_second_each_way,
    an_etcd_that_takes_up_to_half_a_second_each_way,
    a_watch_that_is_cut_every_200_ms,
    an_etcd_whose_watch_is_cut_every_200_ms,
    connections_that_are_reset_at_random,
    an_etcd_whose_connections_are_reset_at_random,
    a_store_that_is_silent_for_seconds,
)}, at_once=3)
