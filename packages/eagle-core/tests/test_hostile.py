# SPDX-License-Identifier: Apache-2.0
"""Bundles that are damaged, cut off, foreign or hostile: each is refused by name, and no code of it runs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import artifact_kernels as kernels
import numpy as np
import pytest
from hawk import artifact

import eagle
from eagle.objects import BadObject, read_object
from eagle.registry import load_bundle
from eagle.registry.host import MOST_OBJECT_BYTES
from eagle.sidecar.files import MOST_JSON_BYTES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs-toolkit: the objects here are ELF")

SIZES = "unsigned long eagle_layout_sizes[5] = {40, 32, 32, 4, 24};\n"
TAG = 'const char eagle_abi_tag[] = "aether-abi/2";\n'
ENTRY = "void plain_host(void) {}\n"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("hostile")
    for kernel in (kernels.plain, kernels.bins):
        artifact.build_bundle([kernel], root / kernel.name, targets=("host",), cache_dir=root / "cache")
    artifact.build_bundle([kernels.plain, kernels.integers], root / "pair", targets=("host",), cache_dir=root / "cache")
    return {name: root / name for name in ("plain", "bins", "pair", "cache")}


@pytest.fixture
def bundle(built: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(built["plain"], tmp_path / "bundle"))


@pytest.fixture
def code(built: dict[str, Path]) -> bytes:
    return (built["plain"] / "plain.so").read_bytes()


def refused(folder: Path, *facts: str, error: type[Exception] = ValueError) -> str:
    """The text of the refusal: of exactly this class, with the door, the facts, and a next step."""
    with pytest.raises(error) as caught:
        load_bundle(folder)
    text = str(caught.value)
    assert type(caught.value) is error, type(caught.value)
    assert text.startswith("eagle.load_bundle: ") and "; " in text and len(text) < 2000
    for fact in facts:
        assert fact in text
    return text


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def replace(folder: Path, data: bytes) -> None:
    """Another file in the place of plain.so; the old one may be open, and must stay as it is."""
    (folder / "plain.so").unlink()
    (folder / "plain.so").write_bytes(data)


def compiled(folder: Path, source: str, *options: str) -> None:
    """An object made of C text in the place of plain.so."""
    (folder / "plain.so").unlink()
    (folder / "other.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", *options, str(folder / "other.c"), "-o", str(folder / "plain.so")],
                   check=True)


def boot(ran: Path) -> str:
    """C text of a constructor that makes the file `ran`."""
    return ('#include <stdio.h>\n'
            f'__attribute__((constructor)) static void boot(void) {{ fclose(fopen("{ran}", "w")); }}\n')


# ---- objects that are not whole, or not for here ---------------------------------------------------------------------


def test_every_length_that_is_cut_off_is_seen(code: bytes) -> None:
    for length in range(len(code)):
        with pytest.raises(BadObject):
            read_object(code[:length])
    assert read_object(code) is not None


@pytest.mark.parametrize("share", [0.0, 0.001, 0.004, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_an_object_that_is_cut_off(bundle: Path, code: bytes, share: float) -> None:
    (bundle / "plain.so").write_bytes(code[:int(share * len(code))])
    refused(bundle, "plain.so", "rebuild the artifact")


def test_an_object_whose_end_is_a_hole(bundle: Path, code: bytes) -> None:
    with open(bundle / "plain.so", "r+b") as file:
        file.truncate(len(code) // 2)
        file.truncate(len(code))
    refused(bundle, "plain.so")


@pytest.mark.parametrize(("at", "value", "fact"), [
    (0, b"\x7fELG", "begins with"), (0, b"ok\0\0", "no shared object"), (4, b"\x01", "32 bits"), (4, b"\x07", "? bits"),
    (5, b"\x02", "big-endian"), (6, b"\x09", "version 9"), (16, struct.pack("<H", 1), "type 1"),
    (16, struct.pack("<H", 2), "type 2"), (16, struct.pack("<H", 4), "type 4"), (18, struct.pack("<H", 183), "183"),
    (32, struct.pack("<Q", 2**63), "cut off"), (54, struct.pack("<H", 32), "32 bytes an entry"),
    (56, struct.pack("<H", 0), "without segments"), (40, struct.pack("<Q", 2**40), "cut off"),
])
def test_headers_of_other_machines(bundle: Path, code: bytes, at: int, value: bytes, fact: str) -> None:
    if sys.byteorder != "little" or struct.calcsize("P") != 8 or os.uname().machine != "x86_64":
        pytest.skip("needs-toolkit: these bytes are of x86-64")
    (bundle / "plain.so").write_bytes(code[:at] + value + code[at + len(value):])
    refused(bundle, "plain.so", fact)


def test_files_of_other_systems_are_left_to_the_loader(bundle: Path) -> None:
    for magic in (b"MZ\x90\0", b"\xcf\xfa\xed\xfe"):
        (bundle / "plain.so").write_bytes(magic + bytes(4096))
        assert read_object(magic + bytes(4096)) is None
        refused(bundle, "plain.so", "rebuild the artifact")


def test_segments_that_cannot_be_mapped(code: bytes) -> None:
    second = headers(code, 1)[1]
    for field, value, fact in ((8, 2**62, "cut off"), (16, 2**63, "cannot be mapped"), (32, 2**50, "cut off"),
                               (40, 0, "cannot be mapped"), (40, 2**50, "cannot be mapped"),
                               (48, 3, "cannot be mapped")):
        bad(code, second + field, "<Q", value, fact)


def test_what_the_reader_takes(bundle: Path) -> None:
    """Either hash table, no section table, no debug data: all load."""
    source = TAG + SIZES + ENTRY
    for options in (["-Wl,--hash-style=sysv"], ["-Wl,--hash-style=gnu"], ["-s"], ["-g"], ["-Wl,-z,noseparate-code"]):
        compiled(bundle, source, *options)
        assert load_bundle(bundle)["plain"].host_entry > 0, options
    data = bytearray((bundle / "plain.so").read_bytes())
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HHH", data, 58, 0, 0, 0)
    replace(bundle, data)
    assert load_bundle(bundle)["plain"].host_entry > 0


def dynamic(code: bytes) -> dict[int, tuple[int, int]]:
    """``{tag: (offset of the entry, value)}`` of an object's dynamic data."""
    (header,) = headers(code, 2)
    start = struct.unpack_from("<Q", code, header + 8)[0]
    entries = {}
    for at in range(start, len(code), 16):
        tag, value = struct.unpack_from("<QQ", code, at)
        if tag == 0:
            return entries
        entries[tag] = at, value
    raise AssertionError("no end")


INIT, FINI, RELA, RELASZ, RELAENT, GNU_HASH, SYMTAB, SYMENT = 12, 13, 7, 8, 9, 0x6FFFFEF5, 6, 11
INIT_ARRAY, INIT_ARRAYSZ, FINI_ARRAY, FINI_ARRAYSZ = 25, 27, 26, 28


NO_LENGTH, OUTSIDE = "a dynamic table without its length", "a dynamic table that lies outside the file"
NO_CODE, NO_TABLE = "a function at load or unload that is no code", "an object without exported symbols"


@pytest.mark.parametrize(("tag", "field", "value", "fact"), [
    (INIT, 8, 0, NO_CODE), (INIT, 8, 2**40, NO_CODE), (FINI, 8, 0, NO_CODE), (FINI, 8, 2**40, NO_CODE),
    (RELA, 0, 99, NO_LENGTH), (RELASZ, 0, 99, NO_LENGTH), (RELASZ, 8, 25, "more relocations than there are"),
    (RELASZ, 8, 2**40, OUTSIDE), (RELAENT, 8, 16, "an unknown form"), (RELAENT, 0, 99, "an unknown form"),
    (INIT_ARRAY, 8, 0x1000, NO_CODE), (FINI_ARRAY, 8, 0x1000, NO_CODE), (INIT_ARRAY, 8, 2**33, OUTSIDE),
    (FINI_ARRAY, 8, 2**33, OUTSIDE), (INIT_ARRAY, 0, 99, NO_LENGTH), (INIT_ARRAYSZ, 0, 99, NO_LENGTH),
    (FINI_ARRAY, 0, 99, NO_LENGTH), (FINI_ARRAYSZ, 0, 99, NO_LENGTH), (INIT_ARRAYSZ, 8, 2**30, OUTSIDE),
    (FINI_ARRAYSZ, 8, 2**30, OUTSIDE), (GNU_HASH, 8, 0, "a damaged hash table"), (GNU_HASH, 0, 99, NO_TABLE),
    (SYMTAB, 8, 2**33, "the symbols that lies outside"), (SYMENT, 8, 16, "symbols of 16 bytes"),
    (SYMENT, 0, 99, "symbols of None bytes"),
])
def test_dynamic_data_that_would_crash_the_loader(code: bytes, tag: int, field: int, value: int, fact: str) -> None:
    bad(code, dynamic(code)[tag][0] + field, "<Q", value, fact)


def bad(code: bytes, at: int, form: str, value: int, fact: str) -> None:
    """`code` with another number at an offset is refused for that."""
    wrong = bytearray(code)
    struct.pack_into(form, wrong, at, value)
    with pytest.raises(BadObject, match=fact):
        read_object(bytes(wrong))


def headers(code: bytes, kind: int) -> list[int]:
    """Where the program headers of a kind are."""
    programs, count = struct.unpack_from("<Q", code, 32)[0], struct.unpack_from("<H", code, 56)[0]
    return [at for at in range(programs, programs + 56 * count, 56) if struct.unpack_from("<I", code, at)[0] == kind]


def test_segments_that_overlap(code: bytes) -> None:
    first, second, *_ = headers(code, 1)
    address, size = struct.unpack_from("<Q", code, second + 16)[0], struct.unpack_from("<Q", code, first + 40)[0]
    assert size <= address
    bad(code, first + 40, "<Q", address + 1, "cannot be mapped")
    bad(code, second + 16, "<Q", 0, "cannot be mapped")
    right = bytearray(code)
    struct.pack_into("<Q", right, first + 40, address)
    assert read_object(bytes(right)) is not None


def test_dynamic_data_without_an_end(code: bytes) -> None:
    (at,) = headers(code, 2)
    for size in (0, 16, 31, 16 * len(dynamic(code))):
        bad(code, at + 32, "<Q", size, "dynamic data without an end")


def test_a_hash_table_that_leads_before_its_symbols(code: bytes) -> None:
    table = dynamic(code)[GNU_HASH][1]  # in the first segment, which begins with the file
    buckets, first, bloom, _ = struct.unpack_from("<4I", code, table)
    heads = table + 16 + 8 * bloom
    assert first > 1 and max(struct.unpack_from(f"<{buckets}I", code, heads)) >= first
    used = next(at for at in range(heads, heads + 4 * buckets, 4) if struct.unpack_from("<I", code, at)[0] > first)
    bad(code, used, "<I", first - 1, "a damaged hash table")
    bad(code, table, "<I", 0, "a damaged hash table")
    bad(code, table + 8, "<I", 3, "a damaged hash table")


def test_sections_that_are_cut_off(code: bytes) -> None:
    """Each ends in the file, but for those that have no bytes in it."""
    table, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    kinds = [struct.unpack_from("<I", code, table + 64 * i + 4)[0] for i in range(count)]
    assert 8 in kinds and count > 10
    for i, kind in enumerate(kinds):
        offset = struct.unpack_from("<Q", code, table + 64 * i + 24)[0]
        if kind == 8:
            longer = bytearray(code)
            struct.pack_into("<Q", longer, table + 64 * i + 32, len(code))
            assert read_object(bytes(longer)) is not None
        else:
            bad(code, table + 64 * i + 32, "<Q", len(code) - offset + 1, "before the end of a section")


@pytest.mark.parametrize(("field", "value"), [(0, 0), (0, 0x1000), (0, 2**40), (8, 8 | 500 << 32), (16, 2**40)])
def test_relocations_of_what_is_not_there(code: bytes, field: int, value: int) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("needs-toolkit: these bytes are of x86-64")
    size, length = dynamic(code)[RELASZ]
    bad(code, size + 8, "<Q", length - 1, f"{length - 1} bytes of relocations")
    wrong = bytearray(code)  # the first relocation is the address of a function that load calls
    struct.pack_into("<Q", wrong, dynamic(code)[RELA][1] + field, value)
    with pytest.raises(BadObject):
        read_object(bytes(wrong))


def test_libraries_of_the_system_are_whole() -> None:
    """What compilers and linkers of all kinds make passes."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line and "(deleted)" not in line}
    assert len(paths) > 10
    for path in sorted(paths):
        found = read_object(Path(path).read_bytes())
        assert found is not None and found.symbols, path


# ---- objects that are not what the sidecar says ----------------------------------------------------------------------


@pytest.mark.parametrize(("source", "facts"), [
    (SIZES + ENTRY, ["eagle_abi_tag"]), (TAG + ENTRY, ["eagle_layout_sizes"]), (TAG + SIZES, ["plain_host"]),
    ("", ["eagle_abi_tag"]), (TAG.replace("/2", "/1") + SIZES + ENTRY, ["'aether-abi/1'"]),
    (TAG.replace("aether-abi/2", "x" * 500) + SIZES + ENTRY, ["xxxx"]),
    (TAG + SIZES.replace("40", "48") + ENTRY, ["48 bytes for GRefMirror"]),
    (TAG + SIZES.replace("[5] = {40, 32, 32, 4, 24}", "[9] = {40}") + ENTRY, ["72 bytes"]),
    (TAG + "unsigned long eagle_layout_sizes[5];\n" + ENTRY, ["eagle_layout_sizes"]),
    ("extern const char* eagle_abi_tag; const char* eagle_abi_tag = 0;\n" + SIZES + ENTRY, ["eagle_abi_tag"]),
    (TAG + SIZES + "long plain_host = 1;\n", ["plain_host"]),
    (TAG + SIZES + "static " + ENTRY, ["plain_host"]),
    ("void eagle_abi_tag(void) {}\n" + SIZES + ENTRY, ["eagle_abi_tag"]),
], ids=range(13))
def test_nothing_of_an_object_that_disagrees_runs(bundle: Path, tmp_path: Path, source: str, facts: list[str]) -> None:
    ran = tmp_path / "ran"
    compiled(bundle, source + boot(ran), "-Wno-unused-function")
    refused(bundle, "plain.so", *facts)
    assert not ran.exists()


def test_a_constructor_runs_when_all_agrees(bundle: Path, tmp_path: Path) -> None:
    """So the test above can fail."""
    ran = tmp_path / "ran"
    compiled(bundle, TAG + SIZES + ENTRY + boot(ran))
    load_bundle(bundle)
    assert ran.exists()


def gone(sidecar: dict[str, Any]) -> None:
    sidecar["stages"] = [{"kernel": name, "cells_in": [], "cells_out": [], "recomputed": []}
                         for name in ("integers", "gone")]


@pytest.mark.parametrize(("damage", "facts"), [
    (lambda folder: (folder / "integers.so").write_bytes(b"\x7fELF"), ["integers.so", "cut off"]),
    (lambda folder: (folder / "integers.so").write_bytes((folder / "plain.so").read_bytes()),
     ["integers.so", "'integers_host'"]),
    (lambda folder: (folder / "integers.json").write_bytes(b"{"), ["integers.json", "no JSON"]),
    (lambda folder: edit(folder / "integers.json", lambda s: s.update(arg_widths=3)), ["integers.json", "arg_widths"]),
    (lambda folder: edit(folder / "integers.json", lambda s: s.pop("host_entry")), ["integers.json", "no host_entry"]),
    (lambda folder: edit(folder / "integers.json", gone), ["manifest.json", "'integers'", "no stage 'gone'"]),
    (lambda folder: edit(folder / "manifest.json", lambda m: m["plugins"][1].update(sidecar="plain.json",
                                                                                   artifact="plain.so")),
     ["manifest.json", "two kernels named 'plain'"]),
    (lambda folder: None, []),
], ids=["object", "entry", "text", "key", "no entry", "stage", "name", "none"])
def test_nothing_of_a_bundle_runs_before_all_of_it_was_checked(
        built: dict[str, Path], tmp_path: Path, damage: Callable[[Path], Any], facts: list[str]) -> None:
    """The first kernel is whole, the second is not."""
    folder, ran = Path(shutil.copytree(built["pair"], tmp_path / "pair")), tmp_path / "ran"
    compiled(folder, TAG + SIZES + ENTRY + boot(ran))
    damage(folder)
    if facts:
        refused(folder, *facts)
    else:
        assert list(load_bundle(folder)) == ["plain", "integers"]
    assert ran.exists() == (not facts)


def test_a_stale_layout(built: dict[str, Path], tmp_path: Path) -> None:
    artifact.build_bundle([kernels.plain], tmp_path / "stale", targets=("host",), cache_dir=built["cache"],
                          layout_sizes_override=(40, 32, 32, 8, 24))
    refused(tmp_path / "stale", "plain.so", "8 bytes for aether::idx_t", "4 bytes")


def test_an_entry_the_object_does_not_export(bundle: Path) -> None:
    for entry in ("nowhere", "eagle_layout_sizes", "malloc", "_init"):
        edit(bundle / "plain.json", lambda s, entry=entry: s.update(host_entry=entry))
        refused(bundle, "plain.so", f"'{entry}'")


def test_a_fold_the_object_does_not_export(built: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built["bins"], tmp_path / "bins"))
    edit(folder / "bins.json", lambda s: s.update(kernel="other"))
    refused(folder, "bins.so", "other__fold_acc_host")


def test_a_library_that_is_needed_and_missing(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "need.c").write_text("void need(void) {}\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "need.c"), "-o", str(tmp_path / "libneed.so")], check=True)
    compiled(bundle, "void need(void); void use(void) { need(); }\n" + TAG + SIZES + ENTRY, f"-L{tmp_path}",
             "-Wl,--no-as-needed", "-lneed")
    refused(bundle, "plain.so", "libneed.so")


# ---- names and paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["artifact", "sidecar"])
@pytest.mark.parametrize("name", ["../plain.so", "/etc/passwd", "a/../../plain.so", ".", "..", "sub/../..", "a\0b",
                                  "\ud800", "x" * 100_000, "//etc/passwd", "./../bundle2/plain.so"])
def test_paths_that_lead_out(bundle: Path, key: str, name: str) -> None:
    edit(bundle / "manifest.json", lambda m: m["plugins"][0].update({key: name}))
    shutil.copytree(bundle, bundle.parent / "bundle2")
    error: type[Exception] = ValueError
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load_bundle(bundle)
    if type(caught.value) is FileNotFoundError:
        error = FileNotFoundError
    refused(bundle, error=error)


@pytest.mark.parametrize(("key", "file"), [("artifact", "plain.so"), ("sidecar", "plain.json")])
def test_an_absolute_path_is_refused_wherever_it_leads(bundle: Path, key: str, file: str) -> None:
    edit(bundle / "manifest.json", lambda m: m["plugins"][0].update({key: str(bundle / file)}))
    refused(bundle, "manifest.json", f"plugins[0].{key}", "a path inside the bundle's folder")


@pytest.mark.parametrize(("file", "target"), [("plain.so", "plain.so"), ("plain.json", "plain.json")])
def test_links(bundle: Path, file: str, target: str) -> None:
    """A link within the bundle is fine, one that leads out is not."""
    outside = bundle.parent / f"outside-{target}"
    (bundle / file).rename(outside)
    (bundle / file).symlink_to(outside)
    refused(bundle, f"plugins[0].{'artifact' if file.endswith('so') else 'sidecar'}", "inside")
    (bundle / file).unlink()
    outside.rename(bundle / f"real-{target}")
    (bundle / file).symlink_to(f"real-{target}")
    assert list(load_bundle(bundle)) == ["plain"]


def test_links_that_go_in_circles(bundle: Path) -> None:
    (bundle / "plain.so").unlink()
    (bundle / "plain.so").symlink_to("plain.so")
    refused(bundle, "plain.so")


def test_a_linked_object_beside_a_device_s(bundle: Path) -> None:
    edit(bundle / "manifest.json", lambda m: m["plugins"][0].update(artifact="plain.ptx", format="ptx"))
    outside = bundle.parent / "outside.so"
    (bundle / "plain.so").rename(outside)
    (bundle / "plain.so").symlink_to(outside)
    refused(bundle, "'plain'", "inside")


def test_a_linked_folder(bundle: Path) -> None:
    (bundle.parent / "alias").symlink_to(bundle)
    assert list(load_bundle(bundle.parent / "alias")) == ["plain"]


@pytest.mark.parametrize(("change", "facts"), [
    (lambda m: m["plugins"].append({**m["plugins"][0], "order": 1}), ["'plain' twice"]),
    (lambda m: m["plugins"].append({**m["plugins"][0], "id": "again", "order": 1}), ["two kernels named 'plain'"]),
    (lambda m: m["plugins"][0].update(id=""), ["id"]), (lambda m: m["plugins"][0].update(id={}), ["id", "{}"]),
    (lambda m: m["plugins"][0].update(order=2**70), ["order"]),
    (lambda m: m["plugins"][0].update(order=[]), ["order", "[]"]),
    (lambda m: m["plugins"][0].update(format="elf"), ["format", "'elf'"]),
    (lambda m: m["plugins"][0].update(format=["host"]), ["format"]),
    (lambda m: m["plugins"][0].update(artifact=["plain.so"]), ["artifact"]),
    (lambda m: m.update(blocks=[]), ["blocks"]), (lambda m: m.update(exec_targets=[["host"]]), ["exec_targets"]),
    (lambda m: m.update(exec_access={}), ["exec_access"]), (lambda m: m.update(pattern=["pure"]), ["pattern"]),
    (lambda m: m.update(pattern=None), ["pattern"]), (lambda m: m.update(pattern="neural_block"), ["neural_block"]),
    (lambda m: m.update(aether_abi=[]), ["aether_abi", "[]"]), (lambda m: m.update(schema_version=1e300), ["schema"]),
], ids=range(17))
def test_manifests(bundle: Path, change: Callable[[Any], Any], facts: list[str]) -> None:
    edit(bundle / "manifest.json", change)
    refused(bundle, "manifest.json", *facts)


# ---- text that is hardly JSON ----------------------------------------------------------------------------------------

HARDLY = [
    (b"", "no JSON"), (b"{", "no JSON"), (b"\xff\xfe{}", "utf-8"), (b"\xef\xbb\xbf{}", "BOM"),
    (b'{"a": \xc3}', "utf-8"),
    (b"{} {}", "Extra data"), (b"null", "NoneType"), (b"[]", "list"), (b'"x"', "str"), (b"[" * 100_000, "recursion"),
    (b'{"a": ' * 100_000, "recursion"), (b'{"schema_version": NaN}', "NaN"), (b'{"schema_version": -Infinity}', "Inf"),
    (b'{"schema_version": 1e400}', "inf"), (b'{"schema_version": 1' + b"0" * 5000 + b"}", "digits"),
    (b'{"a": 1, "a": 2}', "'a' twice"), (b'{"x": {"b": 1, "b": 1}}', "'b' twice"), (b"\0", "no JSON"),
    (b'{"kernel": "a\nb"}', "control character"),
]


@pytest.mark.parametrize("file", ["manifest.json", "plain.json"])
@pytest.mark.parametrize(("text", "fact"), HARDLY, ids=range(len(HARDLY)))
def test_text(bundle: Path, file: str, text: bytes, fact: str) -> None:
    (bundle / file).write_bytes(text)
    assert fact in refused(bundle, file)


@pytest.mark.parametrize(("key", "text"), [
    ("step_ops", "1e400"), ("step_ops", "1" + "0" * 4000), ("step_ops", "-1"), ("kernel", '"a\\u0000b"'),
    ("kernel", '"\\ud800"'), ("host_entry", '"plain_host\\u0000"'), ("arg_widths", '{"\\udfff": 1}'),
    ("launch", '{"block": 1' + "0" * 300 + "}"), ("cells", "[" * 500 + "]" * 500), ("cells", '{"\\u0000": {}}'),
])
def test_values(bundle: Path, key: str, text: str) -> None:
    path = bundle / "plain.json"
    document = json.loads(path.read_text())
    document[key] = "HERE"
    path.write_text(json.dumps(document).replace('"HERE"', text))
    refused(bundle, "plain.json", key)


NESTED = '{"a": ' * 60 + "1" + "}" * 60


@pytest.mark.parametrize(("key", "text", "fact"), [
    ("derivative", '{"kind": "vjp", "wrt": [], "jump": ' + '{"a": ' * 900 + "1" + "}" * 900 + "}", "deeply"),
    ("quantities", "[" * 70 + "]" * 70, "deeply"),
    ("arg_spec", json.dumps([["lookup", f"x{i}"] for i in range(200_000)]), "200000 slots"),
    ("companions", json.dumps({f"x{i}": "y" for i in range(200_000)}), "companions"),
    ("quantities", "{" + ", ".join(f'"k{i}": 1' for i in [*range(200_000), 199_999]) + "}", "'k199999' twice"),
    ("exec_targets", json.dumps(["host"] * 200_000), "exec_targets"),
    ("launch", '{"lane_space": {"axes": [{"label": null, "extent": ' + "1" * 4000 + "." + "1]}}"[1:], "no JSON"),
    ("launch", '{"lane_space": {"axes": [{"label": null, "extent": -' + "1" * 4000 + '}], "group": 1}}', "extent"),
    ("dispatch", json.dumps([{"name": f"d{i}", "K": 1, "policy": "p", "static_selector": True, "selector_reads": []}
                             for i in range(100_000)] + [3]), "dispatch[100000]"),
], ids=range(9))
def test_what_is_large_is_refused_at_once(bundle: Path, key: str, text: str, fact: str) -> None:
    path = bundle / "plain.json"
    document = json.loads(path.read_text())
    document[key] = "HERE"
    path.write_text(json.dumps(document).replace('"HERE"', text))
    before = time.perf_counter()
    refused(bundle, "plain.json", fact)
    assert time.perf_counter() - before < 20  # one of them would take hours if it were quadratic


def test_what_is_nested_and_unknown_is_left_alone(bundle: Path) -> None:
    edit(bundle / "plain.json", lambda s: s.update(quantities=json.loads(NESTED)))
    assert list(load_bundle(bundle)) == ["plain"]


# ---- files that are none ---------------------------------------------------------------------------------------------

FILES = ["manifest.json", "plain.json", "plain.so"]


@pytest.mark.parametrize("file", FILES)
def test_what_stands_where_a_file_should(bundle: Path, file: str) -> None:
    path = bundle / file
    path.unlink()
    refused(bundle, file, error=FileNotFoundError)
    path.mkdir()
    refused(bundle, file, "no regular file")
    path.rmdir()
    os.mkfifo(path)
    refused(bundle, file, "no regular file")
    path.unlink()
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(bundle)  # the name of a socket is short
        try:
            server.bind(file)
        finally:
            os.chdir(here)
        refused(bundle, file)


def test_a_manifest_that_is_a_device(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    (bundle / "manifest.json").symlink_to("/dev/zero")
    refused(bundle, "manifest.json", "no regular file")


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_gigabytes(bundle: Path, file: str) -> None:
    os.truncate(bundle / file, 5 * 2**30)
    most = MOST_OBJECT_BYTES if file.endswith("so") else MOST_JSON_BYTES
    refused(bundle, file, str(5 * 2**30), str(most))


def test_a_file_that_is_a_folder_s_parent(bundle: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^eagle\.load_bundle: .*plain\.json/x': found no such folder"):
        load_bundle(bundle / "plain.json" / "x")


def test_refusals_leave_the_rest_working(bundle: Path) -> None:
    plan = eagle.plan.plan(load_bundle(bundle)["plain"], structure=eagle.exec.HostTeam)
    replace(bundle, b"\x7fELF")
    refused(bundle, "plain.so")
    found = plan.run(x=np.arange(2.0), v=np.ones((3, 2)), m=np.ones((4, 2)), a=2.0, n=1)
    assert found["shifted"].tolist() == [1.0, 2.0]
