"""Checks the results of a passed run."""


def states(results, phase):
    """rank -> state in that phase."""
    return {row["rank"]: row["state"] for row in results["phases"][phase]["ranks"]}


def check_states(results, plan, negative="killed", iterations=2):
    """Checks that every rank has the state in each phase that the plan gives it."""
    named = {abs(rank) for phase in plan for rank in phase}
    for index, phase in enumerate(plan):
        expected = {rank: "not_member" for rank in named}
        expected.update({rank: "passed" for rank in phase if rank >= 0})
        expected.update({-rank: negative for rank in phase if rank < 0})
        assert states(results, index) == expected, (index, states(results, index), expected)
        for row in results["phases"][index]["ranks"]:
            if row["state"] == "passed":
                assert row["checked"] >= 6 and row["both"]["count"] == iterations, row
                sent = row["dispatch_logical_bytes"] > 0
                assert sent == (results["config"]["num_tokens"] > 0) and row["both"]["min"] > 0, row
