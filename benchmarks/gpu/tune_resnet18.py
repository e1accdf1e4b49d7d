"""ResNet-18 tuned for a GPU: how fast it becomes, with how many trials, in how much time.

    python benchmarks/gpu/tune_resnet18.py [--seconds 420] [--precision f32] [--store resnet18-gpu]

Extracts the 24 tasks, searches, and times the network untuned and tuned in turns. A later call
with the same store goes on.
"""

from __future__ import annotations

from typing import Any

from _common import arguments, begin, finish

from flows.cli.tune import print_report
from flows.pipeline import tune_pipeline
from flows.reporting import reporting
from flows.settings import TuneSettings

DRY = "cuda -model=a100 -run=simulated"


def main() -> None:
    """One run of the pipeline."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=420.0, help="of search")
    parser.add_argument("--precision", default="f32", help="f32, tf32, bf16 or f16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--store", default="resnet18-gpu", help="folder of the records")
    args = parser.parse_args()
    target = begin(args.target, args.dry_run, DRY)
    budget: dict[str, Any] = {"trials": 8} if args.dry_run else {"seconds": args.seconds}
    settings = TuneSettings(
        network="mlp" if args.dry_run else "resnet-18",
        target=str(target),
        effort="quick",
        store=args.store,
        batch=args.batch,
        precision=args.precision,
        output="",
        **budget,
    )
    from flows.cli.progress import LineReporter

    with reporting(LineReporter()):
        report = tune_pipeline(settings).report
    print_report(report)
    progress = report.progress
    finish(
        args.json,
        target,
        {
            "estimated_total_s": progress.estimated_total_s,
            "trials": progress.trials,
            "elapsed_s": progress.elapsed_s,
            "failures": report.failures,
            "before": report.before,
            "after": report.after,
            "check": report.check,
            "tasks": [vars(row) for row in progress.rows],
        },
    )


if __name__ == "__main__":  # worker processes import this file
    main()
