"""Worker processes: one for each tool and environment, kept for the whole run, spoken to over pipes."""

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SCRIPT = Path(__file__).parent.parent / "worker.py"
FOREIGN = ("EAGLE_", "OMP_", "GOMP_", "KMP_", "MKL_", "NUMBA_", "JAX_", "XLA_", "PYTHON")


class WorkerError(Exception):
    """What a worker said went wrong, or how it ended."""


class TookTooLong(WorkerError):
    """It was ended because of that."""


class Worker:
    """One process of a tool."""

    def __init__(self, python: str, cache: Path, env: Mapping[str, str]) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self._process = subprocess.Popen(
            [python, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**clean, **env, "BENCH_CACHE": str(cache)},
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, limit: float, **request: Any) -> dict[str, Any]:
        """One request and its answer. A worker that takes longer than `limit` seconds is ended."""
        assert self._process.stdin and self._process.stdout
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(limit, expire)
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            status = self._process.wait()
            if expired.is_set():
                raise TookTooLong(f"took longer than {limit:g} s")
            raise WorkerError(f"ended with status {status}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Pool:
    """The workers of a run, started when first needed and again after one has died."""

    def __init__(self, pythons: Mapping[str, str], cache: Path) -> None:
        self._pythons = pythons
        self._cache = cache
        self._workers: dict[tuple[str, tuple[tuple[str, str], ...]], Worker] = {}

    def worker(self, tool: str, env: Mapping[str, str]) -> Worker:
        key = (tool, tuple(sorted(env.items())))
        if key not in self._workers or not self._workers[key].alive:
            if tool not in self._pythons:
                raise WorkerError(f"no interpreter was given for {tool}")
            try:
                self._workers[key] = Worker(self._pythons[tool], self._cache / tool, env)
            except OSError as error:
                raise WorkerError(f"{tool} cannot start: {error.strerror}") from error
        return self._workers[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for worker in self._workers.values():
            worker.end()
