"""What a run's operations came to, compared with the same operations on one host."""

from tool import Run

ENOUGH = 10  # operations of a view, at least, that are compared: a phase judges as many


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
    """Every operation among any of these ranks gave each of them, bit by bit, what it gives on one host."""
    for ranks in views:
        here = {key: digest for key, digest in found.items() if key[0] == tuple(ranks)}
        reference = on_one_host(ranks, max(op for _, op, _ in here), *arguments)
        for rank in ranks:
            assert sum(key[2] == rank for key in here) >= ENOUGH, (ranks, rank, sorted(here))
        wrong = {key: (digest, reference.get(key)) for key, digest in here.items() if reference.get(key) != digest}
        assert not wrong, wrong
