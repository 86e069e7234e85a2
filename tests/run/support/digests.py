"""Compares the digests of a run's operations with the digests of the same operations on one host."""

from tool import Run

ENOUGH = 10  # the fewest operations to compare: a phase judges as many
MOST = 3000  # the last operation to compare: while ranks join slowly, there may be any number of operations


def digests_of(events):
    """(ranks, operation, rank) -> digest"""
    return {(tuple(event["ranks"]), event["op"], event["rank"]): event["digest"] for event in events
            if event["kind"] == "digest"}


def on_one_host(ranks, last, *arguments):
    """The digests of a run over shared memory that has these ranks from operation 0 to `last` + 1."""
    with Run("--digests", "--iterations", last + 1, *arguments, plan=[list(ranks)]) as run:
        run.expect(0)
        return digests_of(run.events())


def check_digests(found, views, *arguments):
    """Checks that operations among the ranks of any of these views gave each rank the same bits as on one host."""
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
