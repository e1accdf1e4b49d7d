"""Ask the records questions with pandas, and draw what they say.

    python examples/analyse_records.py [STORE] [--plot records.png]

STORE is a folder of records: any run of ``tilework tune`` or of the other examples leaves one. It
is a Parquet dataset; nothing here needs Tilework, which only fills a store if there is none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd


def fill(store: str) -> None:
    """A few seconds of search on a small network, so that there is something to look at."""
    import tilework as tw
    from storage import RecordStore

    net = tw.zoo.get("mlp")
    target = tw.Target("llvm -mcpu=native")
    tasks, weights = tw.extract_tasks(net, target)
    with tw.Measurer(target) as measurer:
        tw.tune(
            tasks,
            weights,
            tw.TuningOptions(seconds=10, num_measures_per_round=8),
            RecordStore(store),
            measurer,
            network=net.name,
        )


def load(store: str) -> pd.DataFrame:
    """All records of a store, one row per measured candidate.

    Folders that begin with an underscore hold documents, not records; pandas skips them.
    """
    records = pd.read_parquet(store)
    return records.sort_values("created_at", kind="stable").reset_index(drop=True)


def speeds(records: pd.DataFrame) -> pd.DataFrame:
    """The valid candidates of the search, with their speed and the best so far of their task."""
    ok = records[(records.status == "ok") & (records.purpose == "search")].copy()
    ok["gflops"] = 1e-9 * ok.flops / ok.latency_s
    ok["best_ms"] = 1e3 * ok.groupby("workload_key").latency_s.cummin()
    ok["trial"] = ok.groupby("workload_key").cumcount() + 1
    return ok


def draw(ok: pd.DataFrame, path: str) -> None:
    """Speed of every candidate against its number, and the best so far, for the slowest tasks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    slowest = ok.groupby("workload_key").latency_s.min().nlargest(6).index
    columns = min(3, len(slowest))
    rows = -(-len(slowest) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(4 * columns, 3 * rows), layout="constrained", squeeze=False
    )
    for axes, key in zip(panels.flat, slowest, strict=False):
        own = ok[ok.workload_key == key]
        axes.plot(own.trial, own.gflops, "o", ms=3, alpha=0.4, label="candidate")
        axes.step(own.trial, own.gflops.cummax(), where="post", label="best so far")
        axes.set_title(own.workload.iloc[0][:40], fontsize=9)
        figure.suptitle(f"target {own.target.iloc[0]}", fontsize=9)
        axes.set(xlabel="trials of this task", ylabel="GFLOP/s", ylim=(0, None))
    for axes in panels.flat[len(slowest) :]:
        axes.set_axis_off()
    panels.flat[0].legend(fontsize=8)
    figure.savefig(path, dpi=100)


def main() -> None:
    """What was measured, what failed, what is fastest, how good the model's order was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?", default="records", help="folder of the records")
    parser.add_argument("--plot", default="records.png", help="where to draw")
    parser.add_argument("--target", default="", help="of the records; default: the commonest")
    args = parser.parse_args()
    if not Path(args.store).exists():
        print(f"there is no store '{args.store}': tuning a small network first")
        fill(args.store)

    records = load(args.store)
    target = args.target or records.target.mode()[0]
    others = records[records.target != target]
    records = records[records.target == target]
    if records.empty:
        raise SystemExit(f"the store holds no records of target '{target}'")
    print(f"{len(records)} records of {records.run_id.nunique()} runs, target {target}")
    for name, count in others.target.value_counts().items():
        print(f"  (left out: {count} of target {name}; see --target)")
    print("\nHow they ended:")
    print(records.status.value_counts().to_string())
    bad = records[records.status != "ok"]
    if len(bad):
        print("\nThe commonest failures:")
        print(bad.error.str.slice(0, 70).value_counts().head(5).to_string())

    ok = speeds(records)
    if ok.empty:
        raise SystemExit("no candidate was valid: there is nothing to draw")
    print("\nTasks: candidates, best, median and how far apart they are:")
    table = ok.groupby("workload").agg(
        trials=("latency_s", "size"),
        best_ms=("latency_s", lambda s: 1e3 * s.min()),
        median_ms=("latency_s", lambda s: 1e3 * s.median()),
        best_gflops=("gflops", "max"),
    )
    table["median / best"] = table.median_ms / table.best_ms
    print(table.sort_values("best_ms", ascending=False).head(12).round(3).to_string())

    near = ok[ok.latency_s <= 1.05 * ok.groupby("workload_key").latency_s.transform("min")]
    print("\nTrials until a task was within 5 % of the best of the store:")
    print(near.groupby("workload").trial.min().describe().round(1).to_string())

    scored = ok.dropna(subset=["predicted_score"])
    if len(scored) > 2:
        order = scored.groupby(["workload_key", "round", "run_id"]).apply(
            lambda g: g.predicted_score.rank().corr(-g.latency_s.rank()), include_groups=False
        )
        print(f"\nRank correlation of prediction and speed inside a round: {order.mean():.2f}")

    draw(ok, args.plot)
    print(f"\nplot: {args.plot}")


if __name__ == "__main__":
    main()
