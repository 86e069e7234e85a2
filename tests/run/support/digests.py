"""Digests of a run's operations, compared with those of the same operations on one host."""

from tool import Run

ENOUGH = 10  # operations of a view, at least, that are compared: a phase judges as many
MOST = 3000  # the last operation that is compared: while ranks are slow to join, there may be any number


def digests_of(events):
    """(ranks, operation, rank) -> digest"""
    return {(tuple(event["ranks"]), event["op"], event["rank"]): event["digest"] for event in events
            if event["kind"] == "digest"}


def on_one_host(ranks, last, *arguments):
    """The same of a run that has these ranks from operation 0 to the one after `last`, over shared memory."""
    with Run("--digests", "--iterations", last + 1, *arguments, plan=[list(ranks)]) as run:
        run.expect(0)
        return digests_of(run.events())


def check_digests(found, views, *arguments):
    """Operations among any of these ranks gave each of them the same bits as on one host."""
    compared = 0
    for ranks in views:
        here = {key: digest for key, digest in found.items() if key[0] == tuple(ranks) and key[1] <= MOST}
        if not here:
            continue
        reference = on_one_host(ranks, max(op for _, op, _ in here), *arguments)
        wrong = {key: (digest, reference.get(key)) for key, digest in here.items() if reference.get(key) != digest}
        assert not wrong, wrong
        print(f"{len(here)} results of operations among ranks {ranks} are those of one host")
        compared += len(here)
    assert compared >= ENOUGH, (compared, sorted(found))
