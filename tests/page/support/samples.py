"""Sample documents from which the tests make pages."""
import random


def number(value):
    return float(f"{value:.6g}")


def times(random_, base):
    p50 = base * random_.uniform(0.9, 1.1)
    p99 = p50 * random_.uniform(1.2, 3)
    return {"count": 20, "avg": number(p50 * 1.1), "min": number(p50 * random_.uniform(0.5, 0.9)), "p50": number(p50),
            "p99": number(p99), "max": number(p99 * random_.uniform(1, 1.3))}


def no_times():
    return {"count": 0, "avg": 0.0, "min": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0}


def dispatch_rows(random_, num_ranks, dead):
    """The rows of 20 dispatches of 128 tokens to 8 experts of 64 ranks, with random differences."""
    return [0 if rank in dead else round(random_.gauss(320, 17)) for rank in range(num_ranks)]


def rank_results(random_, rank, state, life, num_ranks, dead):
    measured = state == "passed"
    return {"rank": rank, "local_rank": rank % 8, "gpu": None, "gpu_name": "", "host": f"node{rank // 8}",
            "incarnation": f"{life:016x}", "state": state, "reason": "", "checked": 7, "num_lost_selections": 0,
            "worst_diff": 1e-6, "both": times(random_, 300) if measured else no_times(),
            "dispatch": times(random_, 150) if measured else no_times(),
            "combine": times(random_, 150) if measured else no_times(),
            "dispatch_logical_bytes": number(random_.uniform(1e6, 9e6)),
            "dispatch_wire_bytes": number(random_.uniform(1e6, 5e6)),
            "combine_logical_bytes": number(random_.uniform(1e6, 9e6)),
            "combine_wire_bytes": number(random_.uniform(1e6, 5e6)), "window_bytes": 409600,
            "dispatch_rows": dispatch_rows(random_, num_ranks, dead) if measured else []}


def transition(random_, phase, change, rank, epoch, begin):
    joins, kills = change == "join", change == "kill"
    stall = number(random_.uniform(1e3, 9e3)) if phase > 0 else None
    return {"phase": phase, "change": change, "rank": rank, "epoch": epoch, "op": 20 * epoch,
            "time_s": number(begin + random_.uniform(0.1, 0.3)),
            "launch_us": number(random_.uniform(1e4, 1e5)) if joins else None,
            "connect_us": number(random_.uniform(1e4, 1e5)) if joins else None,
            "first_dispatch_us": number(random_.uniform(1e2, 1e4)), "longest_stall_us": stall,
            "stalled_rank": 0 if phase > 0 else None, "median_us": 161.9 if phase > 0 else None,
            "membership_stall_us": stall, "membership_rank": 0 if phase > 0 else None,
            "membership_median_us": 161.9 if phase > 0 else None, "detect_us": 101.5 if kills else None,
            "detect_median_us": 450.25 if kills else None}


def results(num_phases, num_ranks, deaths):
    """A run in which `deaths` ranks die in each phase but the first, and come back in the next."""
    random_ = random.Random(1)
    lives, phases, transitions, dead, epoch = list(range(1, num_ranks + 1)), [], [], [], 0
    for phase in range(num_phases):
        begin = number(phase * 0.75)
        changes = [("join", rank) for rank in (range(num_ranks) if phase == 0 else dead)]
        for rank in dead:
            lives[rank] = random_.getrandbits(62)
        alive = [rank for rank in range(num_ranks) if rank not in dead]
        dead = sorted(random_.sample(alive, deaths)) if phase > 0 else []
        changes += [("kill", rank) for rank in dead]
        for change, rank in changes:
            epoch += 1
            transitions.append(transition(random_, phase, change, rank, epoch, begin))
        ranks = [rank_results(random_, rank, "killed" if rank in dead else "passed", lives[rank], num_ranks, dead)
                 for rank in range(num_ranks)]
        phases.append({"index": phase, "begin_s": begin, "end_s": number(begin + 0.74), "ranks": ranks})
    return {"weft_results": 1, "run": "5f0c3e1a-9b7d-4c52-8e64-2a1b0c9d8e7f", "job": "elastic", "version": "0.1.0",
            "started": "2026-11-20T12:00:00Z", "elapsed_s": number(0.75 * num_phases),
            "store": "embedded, http://127.0.0.1:1",
            "config": {"num_tokens": 128, "hidden": 7168, "topk": 8, "experts_per_rank": 2, "dtype": "bf16"},
            "plan": [], "passed": True, "exit_status": 0, "error": "", "phases": phases,
            "processors": [{"host": "node0", "usable": 8, "ranks": 8}], "transitions": transitions}


def distribution(p50, name="latency"):
    return {"name": name, "unit": "us", "better": "lower", "value": number(p50 * 1.08), "count": 1000,
            "min": number(p50 * 0.8), "p50": number(p50), "p95": number(p50 * 1.3), "p99": number(p50 * 1.6),
            "p999": number(p50 * 2.5), "max": number(p50 * 5), "samples": [number(p50)] * 20, "bound": None,
            "bound_name": ""}


def rate(name, value, unit="GB/s", bound=None, bound_name=""):
    return {"name": name, "unit": unit, "better": "higher", "value": number(value), "count": 0, "min": None,
            "p50": None, "p95": None, "p99": None, "p999": None, "max": None, "bound": bound, "bound_name": bound_name}


def row(keys, figures, run=0, refused=""):
    return {"keys": keys, "run": run, "slowest": "rank 1 on b", "refused": refused, "figures": figures}


def figures(kind, rows, **more):
    return {"weft_figures": 1, "kind": kind, "version": "0.1.0", "started": "2026-11-20T12:00:00Z", "elapsed_s": 1.5,
            "complete": True, "cut_short": "", "passed": True, "error": "", "hosts": ["a", "b"],
            "settings": {"num_iter": 1000, "backend": "UCX"}, "rows": rows,
            "bounds": [{"name": "host copy", "value": 12.5, "measured": True, "detail": "256 MiB by one thread"}],
            **more}


def transfers(slower=1.0, repeats=1):
    rows = []
    for op in ("WRITE", "READ"):
        for transport, start, speed in (("shm", 0.4, 11.0), ("ucx", 3.0, 8.0)):
            for size in (4096 * 4 ** power for power in range(8)):
                us = slower * (start + size / speed / 1e3)
                keys = {"op": op, "bytes": size, "batch": 1, "scheme": "pairwise", "transport": transport}
                rows += [row(keys, [distribution(us * (1 + run / 10)), rate("bandwidth", size / us / 1e3, bound=12.5,
                                                                            bound_name="host copy"),
                                    rate("messages", 1e6 / us, "1/s"), rate("cpu", 97, "percent")], run)
                         for run in range(repeats)]
    return figures("transfer", rows)


def traffic():
    """Two patterns of four workers, each with rows of its workers and of its pairs."""
    rows = []
    for step in range(2):
        keys = {"step": step, "pattern": f"p{step}", "op": "WRITE", "senders": 4, "bytes": 12 << 20}
        rows.append(row(keys, [distribution(300), rate("bandwidth", 9.5)]))
        for rank in range(4):
            rows.append(row({"step": step, "pattern": f"p{step}", "rank": rank, "bytes": 3 << 20},
                            [distribution(200 + rank)]))
        pairs = [(one, other) for one in range(4) for other in range(4) if one != other]
        rows += [row({"step": step, "pattern": f"p{step}", "from": one, "to": other, "bytes": 1 << 20},
                     [rate("bandwidth", 1 + one + other / 10)]) for one, other in pairs]
    return figures("traffic", rows)


def ep():
    rows = []
    for op, cost in (("dispatch", 1), ("combine", 2)):
        for tokens in (64, 128, 256):
            for skew in ("uniform", "zipf"):
                us = tokens * cost * (1.4 if skew == "zipf" else 1)
                keys = {"op": op, "tokens": tokens, "hidden": 7168, "topk": 8, "ranks": 8, "skew": skew, "graph": False}
                rows.append(row(keys, [distribution(us), rate("logical_bandwidth", tokens * 57.3 / us),
                                       rate("wire_bandwidth", tokens * 28.7 / us, bound=70.0, bound_name="nvlink")]))
    return figures("ep", rows)


def comparison():
    rows = []
    for i, (change, half) in enumerate([(6.4, 2.5), (1.2, 3), (-7.5, 1), (0.1, 0.2), (12, 4), (-1, 2)]):
        verdict = "worse" if change > 5 else "better" if change < -5 else "same"
        rows.append({"keys": {"op": "WRITE", "bytes": 4096 * 4 ** i}, "figure": "latency", "unit": "us",
                     "better": "lower", "baseline": 3.125, "value": number(3.125 * (1 + change / 100)),
                     "change_percent": change, "low_percent": number(change - half),
                     "high_percent": number(change + half), "significant": abs(change) > half, "verdict": verdict,
                     "run": "B", "samples": [1000, 1000]})
    return {"weft_comparison": 1, "limit_percent": 5, "beyond_limit": 2, "verdict": "worse", "rows": rows,
            "runs": [{"label": "A", "path": "a.json", "format": "weft figures", "repeats": 3},
                     {"label": "B", "path": "b.json", "format": "weft figures", "repeats": 3}],
            "only_in": [{"run": "A", "keys": {"op": "NOTIFY", "bytes": 8}}]}
