# SPDX-License-Identifier: Apache-2.0
"""The lock of the seam: writes and checks what eagle-backend/1 has promised.

``tools/abi.py --check`` compares the header and the symbol list with the lock file, compiles the layout test and says
whether the table in the documentation is fresh; with ``--library PATH`` it also checks what a backend exports.
``tools/abi.py --write`` records additions; it refuses what would change a released row.
Needs a C compiler ($CC, else cc) and, for --library, its nm.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = "packages/eagle-core/include"
HEADER = f"{INCLUDE}/eagle/eagle_backend.h"
SYMBOLS = f"{INCLUDE}/eagle/eagle_backend_symbols.def"
LOCK = "packages/eagle-core/abi/eagle_backend.lock.json"
LAYOUT_TEST = "packages/eagle-core/native/tests/layout.c"
DOCS = "docs/backends.md"
BEGIN, END = "<!-- symbols:begin -->", "<!-- symbols:end -->"
PREFIX = "eagle_backend_"
EXTENSION = -1

# Sizes that released callers and backends still use; a struct that grows later adds its own when written.
OLDER_SIZES = {
    "eagle_build_info": [176],
    "eagle_fork_desc": [32],
    "eagle_conditional_desc": [48],
    "eagle_compact_desc": [72],
    "eagle_reduce_desc": [72],
}
# The only constants that may change, and only upwards.
GROWING = ("EAGLE_BACKEND_VERSION", "EAGLE_BACKEND_VERSION_MINOR")

Lock = dict[str, Any]


class AbiError(Exception):
    """The sources cannot be read as a seam; the message says why."""


# ---- reading the sources ---------------------------------------------------------------------------------------------


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def read_symbols(text: str) -> dict[str, tuple[str, int, str]]:
    """The rows of the symbol list: name -> (group, minor, bound)."""
    rows: dict[str, tuple[str, int, str]] = {}
    for name, group, minor, bound in re.findall(
        r"^EAGLE_SYMBOL\((\w+), (\w+), (-?\d+), (\w+)\)", without_comments(text), flags=re.MULTILINE
    ):
        if name in rows:
            raise AbiError(f"symbol {name}: twice in {SYMBOLS}")
        if bound not in ("REQUIRED", "BIT", "ALONE"):
            raise AbiError(f"symbol {name}: bound is {bound}, want REQUIRED, BIT or ALONE")
        rows[name] = (group, int(minor), bound)
    return rows


def parameter_type(parameter: str) -> str:
    """A parameter without its name: names are no part of the ABI."""
    parameter = " ".join(parameter.split())
    if "(*" in parameter:
        return re.sub(r"\(\*\w+\)", "(*)", parameter)
    bare = re.sub(r"(?<=[\s*])\w+$", "", parameter).strip() if parameter != "void" else parameter
    return bare.replace(" *", "*")


def read_prototypes(header: str) -> dict[str, str]:
    """name -> "result(type, ...)" of every function the header declares."""
    found = re.findall(rf"EAGLE_BACKEND_API\s+([^;]*?)\b{PREFIX}(\w+)\((.*?)\);", header, flags=re.DOTALL)
    prototypes = {}
    for result, name, parameters in found:
        types = [parameter_type(p) for p in re.split(r",(?![^(]*\))", parameters)]
        prototypes[name] = f"{' '.join(result.split()).replace(' *', '*')}({', '.join(types)})"
    return prototypes


def read_structs(header: str) -> dict[str, dict[str, str]]:
    """struct -> field -> type, in the order of the header."""
    structs: dict[str, dict[str, str]] = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\}\s*(\w+);", header, flags=re.DOTALL):
        fields: dict[str, str] = {}
        for declaration in filter(None, (" ".join(d.split()) for d in body.split(";"))):
            match = re.fullmatch(r"(.+?[\s*])(\w+)(\[\w+\])?", declaration)
            if match is None:
                raise AbiError(f"struct {name}: cannot read the field {declaration!r}")
            fields[match[2]] = match[1].strip().replace(" *", "*") + (match[3] or "")
        structs[name] = fields
    return structs


def read_constants(header: str) -> list[str]:
    """The names of all enumerators and value macros."""
    names = [
        name
        for body in re.findall(r"enum\s*\{(.*?)\}", header, flags=re.DOTALL)
        for name in re.findall(r"(\w+)\s*=", body)
    ]
    macros: list[str] = re.findall(r"^#define (EAGLE_\w+)[ \t]+(?!__)\S", header, flags=re.MULTILINE)
    return macros + names


# ---- measuring -------------------------------------------------------------------------------------------------------


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def measure(root: Path, structs: dict[str, dict[str, str]], constants: list[str]) -> dict[str, int]:
    """Sizes, offsets and values as the C compiler sees them."""
    expressions = {name: name for name in constants}
    for struct, fields in structs.items():
        expressions[struct] = f"sizeof({struct})"
        for field in fields:
            expressions[f"{struct}.{field}"] = f"offsetof({struct}, {field})"
            expressions[f"{struct}.{field}:size"] = f"sizeof((({struct} *)0)->{field})"
    prints = "".join(f'    printf("%s %lld\\n", "{key}", (long long)({c}));\n' for key, c in expressions.items())
    source = (
        "#include <stddef.h>\n#include <stdio.h>\n"
        f'#include "eagle/eagle_backend.h"\nint main(void) {{\n{prints}    return 0;\n}}\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "measure")
        program.with_suffix(".c").write_text(source)
        run([*compiler(), "-std=c11", f"-I{root / INCLUDE}", f"{program}.c", "-o", str(program)])
        lines = run([str(program)]).splitlines()
    return {key: int(value) for key, value in (line.split() for line in lines)}


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AbiError(f"{command[0]} failed:\n{done.stderr.strip()}")
    return done.stdout


def read_seam(root: Path) -> Lock:
    """Everything the header and the symbol list promise, in the form of the lock file."""
    header = without_comments((root / HEADER).read_text())
    rows, prototypes = read_symbols((root / SYMBOLS).read_text()), read_prototypes(header)
    for name in rows.keys() - prototypes.keys():
        raise AbiError(f"symbol {name}: in {SYMBOLS}, not declared in {HEADER}")
    for name in prototypes.keys() - rows.keys():
        raise AbiError(f"symbol {name}: declared in {HEADER}, not in {SYMBOLS}")
    structs, constants = read_structs(header), read_constants(header)
    facts = measure(root, structs, constants)
    minors = range(EXTENSION, facts["EAGLE_BACKEND_VERSION_MINOR"] + 1)
    for name, (_, minor, _) in rows.items():
        if minor not in minors:
            raise AbiError(f"symbol {name}: minor {minor}, the header is at {minors[-1]}")
    return {
        "generated": f"by tools/abi.py --write, from {HEADER} and {SYMBOLS}",
        "symbols": {
            "extension" if minor == EXTENSION else str(minor): {
                name: [group, bound, prototypes[name]] for name, (group, since, bound) in rows.items() if since == minor
            }
            for minor in [*minors[1:], EXTENSION]
        },
        "structs": {
            struct: {
                "size": facts[struct],
                "older_sizes": list(OLDER_SIZES.get(struct, [])),
                "fields": {
                    field: [facts[f"{struct}.{field}"], facts[f"{struct}.{field}:size"], ctype]
                    for field, ctype in fields.items()
                },
            }
            for struct, fields in structs.items()
        },
        "constants": {name: facts[name] for name in constants},
    }


# ---- the lock --------------------------------------------------------------------------------------------------------


def broken(old: Lock, new: Lock) -> Iterator[str]:
    """One line for every released row that the new seam removes, moves or changes."""
    for minor, rows in old["symbols"].items():
        now = new["symbols"].get(minor, {})
        for name, row in rows.items():
            if name not in now:
                yield f"symbol {name}: locked in {minor_name(minor)}, now missing there"
            elif now[name] != row:
                yield f"symbol {name}: now {now[name]}, locked as {row}"
        yield from reordered(f"the symbols of {minor_name(minor)}", rows, now)
        if minor != "extension":
            for name in now.keys() - rows.keys():
                yield f"symbol {name}: {minor_name(minor)} is released; a new symbol takes the next minor, or -1"
    for struct, locked in old["structs"].items():
        if struct not in new["structs"]:
            yield f"struct {struct}: locked, now missing"
            continue
        fields, now = locked["fields"], new["structs"][struct]["fields"]
        for field, row in fields.items():
            if field not in now:
                yield f"struct {struct}: field {field} is locked, now missing"
            elif now[field] != row:
                yield f"struct {struct}: field {field} is now {now[field]}, locked as {row} (offset, size, type)"
        for field in now.keys() - fields.keys():
            if now[field][0] < locked["size"]:
                yield f"struct {struct}: new field {field} lies before the locked end, {locked['size']}"
    for name, value in old["constants"].items():
        now_value = new["constants"].get(name)
        if now_value is None:
            yield f"constant {name}: locked as {value}, now missing"
        elif now_value < value or (now_value > value and name not in GROWING):
            yield f"constant {name}: now {now_value}, locked as {value}"


def minor_name(minor: str) -> str:
    return "the extensions" if minor == "extension" else f"minor {minor}"


def reordered(what: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    before, after = [n for n in old if n in new], [n for n in new if n in old]
    for was, now in zip(before, after, strict=True):
        if was != now:
            yield f"{what}: reordered, {now} stands where {was} was"
            return


def carry_sizes(old: Lock, new: Lock) -> None:
    """Keeps the older sizes of the lock, and the present one of each struct that grows."""
    for struct, locked in old["structs"].items():
        now = new["structs"].get(struct)
        if now is not None:
            grown = [locked["size"]] if locked["size"] < now["size"] else []
            now["older_sizes"] = sorted({*locked["older_sizes"], *now["older_sizes"], *grown})


def dump(lock: Lock) -> str:
    """JSON with one row per line, so that a difference reads well."""
    text = json.dumps(lock, indent=2)
    rows = re.compile(r"\[\s+([^\[\]{}]*?)\s+\](?=,?\n)")
    return rows.sub(lambda m: "[" + re.sub(r",\n\s+", ", ", m[1]) + "]", text) + "\n"


# ---- the table, and the layout test ---------------------------------------------------------------------------------


def table(seam: Lock) -> str:
    """The symbols as a Markdown table, grouped as the list groups them."""
    bits = {n[len("EAGLE_CAP_") :].lower(): v for n, v in seam["constants"].items() if n.startswith("EAGLE_CAP_")}
    words = {"REQUIRED": "always", "BIT": "with the bit", "ALONE": "by presence"}
    rows = [
        (group, name, "extension" if minor == "extension" else f"1.{minor}", bound)
        for minor, symbols in seam["symbols"].items()
        for name, (group, bound, _) in symbols.items()
    ]
    groups = list(dict.fromkeys(group for group, *_ in rows if group not in ("experimental", "extension")))
    groups = [*sorted(groups, key=lambda g: bits.get(g, -1)), "experimental", "extension"]
    rows.sort(key=lambda row: groups.index(row[0]))
    lines = ["| group | bit | symbol | since | bound |", "|---|---|---|---|---|"]
    lines += [f"| {g} | {bits.get(g, '')} | `{PREFIX}{n}` | {since} | {words[b]} |" for g, n, since, b in rows]
    return "\n".join(lines) + "\n"


def with_table(page: str, seam: Lock) -> str:
    if BEGIN not in page or END not in page:
        raise AbiError(f"{DOCS}: no {BEGIN} ... {END}")
    head, rest = page.split(BEGIN, 1)
    return f"{head}{BEGIN}\n{table(seam)}{END}{rest.split(END, 1)[1]}"


def check_layout_test(root: Path, seam: Lock) -> Iterator[str]:
    """The layout test compiles, and has a line for all that the header declares."""
    lines = without_comments((root / LAYOUT_TEST).read_text())
    seen = {f"{kind} {a}{b}" for kind, a, b in re.findall(r"^(\w+)\((\w+), -?\w+[^,]*?(, \w+)?\);", lines, re.M)}
    for struct, row in seam["structs"].items():
        name = struct.removeprefix("eagle_")
        wanted = {f"SIZE {name}": struct} | {f"AT {name}, {f}": f"{struct}.{f}" for f in row["fields"]}
        yield from (f"{LAYOUT_TEST}: no line for {what}" for line, what in wanted.items() if line not in seen)
    for constant in seam["constants"]:
        if f"VALUE {constant.removeprefix('EAGLE_')}" not in seen:
            yield f"{LAYOUT_TEST}: no line for {constant}"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{root / INCLUDE}"]
    try:
        run([*compiler(), *flags, str(root / LAYOUT_TEST)])
    except AbiError as error:
        yield f"{LAYOUT_TEST}: {error}"


# ---- a built library -------------------------------------------------------------------------------------------------


def exported(library: Path) -> set[str]:
    """The names a shared library defines for others."""
    flags = ["-gU"] if sys.platform == "darwin" else ["-D", "--defined-only"]
    rows = [line.split() for line in run(["nm", *flags, str(library)]).splitlines()]
    names = {row[-1].split("@")[0] for row in rows if row and row[-2] != "A"}  # A: the name of a version, no symbol
    return {name.removeprefix("_") for name in names} if sys.platform == "darwin" else names


def check_library(library: Path, seam: Lock) -> Iterator[str]:
    """Exactly the seam: nothing else, nothing required or promised left out."""
    names = exported(library)
    rows = {PREFIX + n: row for symbols in seam["symbols"].values() for n, row in symbols.items()}
    for name in sorted(names - rows.keys()):
        yield f"{library}: exports {name}, which the seam does not have"
    missing = [n for n, row in rows.items() if row[1] == "REQUIRED" and n not in names]
    yield from (f"{library}: lacks the required {name}" for name in missing)
    if missing:
        return
    mask = ctypes.c_uint64(0)
    status = getattr(ctypes.CDLL(str(library.resolve())), f"{PREFIX}capabilities")(ctypes.byref(mask))
    if status != 0:
        yield f"{library}: capabilities() answers {status}"
        return
    for name, (group, bound, _) in rows.items():
        if bound == "BIT" and mask.value >> seam["constants"][f"EAGLE_CAP_{group.upper()}"] & 1 and name not in names:
            yield f"{library}: sets the bit of {group} and lacks {name}"


# ---- the two commands ------------------------------------------------------------------------------------------------


def check(root: Path, libraries: list[Path]) -> list[str]:
    """All that is wrong, one message each."""
    seam = read_seam(root)
    if not (root / LOCK).exists():
        return [f"{LOCK}: missing; run tools/abi.py --write"]
    old = json.loads((root / LOCK).read_text())
    problems = list(broken(old, seam))
    carry_sizes(old, seam)
    if not problems and dump(seam) != (root / LOCK).read_text():
        problems.append(f"{LOCK}: the seam has grown; run tools/abi.py --write")
    page = (root / DOCS).read_text()
    if with_table(page, seam) != page:
        problems.append(f"{DOCS}: the symbol table is stale; run tools/abi.py --write")
    problems += check_layout_test(root, seam)
    for library in libraries:
        problems += check_library(library, seam)
    return problems


def write(root: Path) -> list[str]:
    """Records additions; writes nothing when a released row would change."""
    seam, lock, page = read_seam(root), root / LOCK, root / DOCS
    if lock.exists():
        old = json.loads(lock.read_text())
        if problems := list(broken(old, seam)):
            return problems
        carry_sizes(old, seam)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(dump(seam))
    page.write_text(with_table(page.read_text(), seam))
    return []


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    command = parser.add_mutually_exclusive_group(required=True)
    command.add_argument("--write", action="store_true", help="record additions in the lock file and the table")
    command.add_argument(
        "--check", action="store_true", help="compare, compile the layout test, fail on any difference"
    )
    parser.add_argument("--library", type=Path, action="append", default=[], help="also check this backend's exports")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        problems = write(options.root) if options.write else check(options.root, options.library)
    except AbiError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"abi: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
