"""One tool's process: reads a request a line on stdin, answers a line on stdout, both JSON.

`open` sets a job up and calibrates it, `round` measures once, `close` lets its arrays go, `versions` says what is here.
"""

import json
import os
import sys
from importlib import metadata
from typing import Any

PACKAGES = ["eagle", "eagle-core", "eagle-backend-cpu", "raptor-eagle", "raptor-hawk", "raptor-core", "numpy",
            "torch"]


class Worker:
    """Holds at most one job."""

    def __init__(self) -> None:
        self.job: Any = None

    def open(self, job: str, params: dict[str, Any], target: float) -> dict[str, Any]:
        from jobs import JOBS

        self.job = JOBS[job](**params)
        return {"digest": self.job.digest(), "calls": self.job.prepare(target)}

    def round(self) -> dict[str, Any]:
        return {"value": self.job.round()}

    def close(self) -> dict[str, Any]:
        self.job = None
        return {}

    def versions(self) -> dict[str, Any]:
        found = {"python": sys.version.split()[0]}
        for name in PACKAGES:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return found


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a tool prints is no answer
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
