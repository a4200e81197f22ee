# SPDX-License-Identifier: Apache-2.0
"""Fail unless the installed distributions are the ones in a folder of wheels: ``assert_ours.py DIST NAME ...``.

An unrelated `eagle` is on PyPI, so an install by name is worth a look: each installed file listed in a wheel's RECORD
must have the hash that RECORD gives it. Names that are not installed are left alone; at least one must be.
"""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path


def record_of(wheel: Path) -> set[str]:
    """The RECORD lines of a wheel that carry a hash."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        lines = archive.read(name).decode().splitlines()
    return {line for line in lines if ",sha256=" in line}


def check(dist: Path, name: str) -> str | None:
    """The version of `name` as installed, or None when it is not; exits when it is not ours."""
    try:
        installed = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    stem = f"{name.replace('-', '_')}-{installed.version}"
    wheels = list(dist.glob(f"{stem}-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{name} {installed.version} is installed, and {dist} holds {len(wheels)} wheels of that version")
    missing = record_of(wheels[0]) - set((installed.read_text("RECORD") or "").splitlines())
    if missing:
        sys.exit(f"{name} {installed.version} is installed, but not from {wheels[0].name}: {sorted(missing)[:3]}")
    return installed.version


def main() -> None:
    dist, names = Path(sys.argv[1]), sys.argv[2:]
    ours = {name: version for name in names if (version := check(dist, name))}
    if not ours:
        sys.exit(f"none of {', '.join(names)} is installed")
    print("installed from", dist.name + ":", ", ".join(f"{name} {version}" for name, version in ours.items()))


if __name__ == "__main__":
    main()
