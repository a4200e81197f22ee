# SPDX-License-Identifier: Apache-2.0
"""Reading a shared object's file before the loader does: is it whole, made for this machine, and what it exports.

Loading runs code of the object, and the loader crashes on a file that ends early. So everything that can be told from
the bytes is told from the bytes. ELF of 64 bits, little-endian, only: boxes hold 64-bit pointers and planes are
little-endian. The files of other systems are left to their loaders.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

__all__ = ["BadObject", "Object", "Segment", "Symbol", "read_object"]

FOREIGN_MAGIC = (b"MZ", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe")  # PE, Mach-O
MACHINES = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183, "ppc64le": 21, "riscv64": 243, "loongarch64": 258}
WIDE, LITTLE = 2, 1  # an object of 64 bits, little-endian
DYNAMIC_LIBRARY = 3
LOAD, DYNAMIC, READ_ONLY_LATER = 1, 2, 0x6474E552  # kinds of program headers
EXECUTABLE, WRITABLE, READABLE = 1, 2, 4
# Tags of dynamic data.
PLTRELSZ, PLTGOT, HASH, STRTAB, SYMTAB, RELA, RELASZ, RELAENT, STRSZ, SYMENT = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
INIT, FINI, PLTREL, JMPREL, INIT_ARRAY, FINI_ARRAY, INIT_ARRAYSZ, FINI_ARRAYSZ = 12, 13, 20, 23, 25, 26, 27, 28
GNU_HASH, VERSYM, RELACOUNT, VERNEED = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFF9, 0x6FFFFFFE
RELR = 36
CALLED = ((INIT_ARRAY, INIT_ARRAYSZ), (FINI_ARRAY, FINI_ARRAYSZ))  # tables of functions that load and unload call
NO_BITS, ABSOLUTE = 8, 0xFFF1
RELATIVE = {62: (8, 37), 183: (1027, 1032)}  # machine: relocations to an address of the object, and by a function of it
# Rows of tables: of dynamic data, of relocations, of symbols.
ENTRY, RELOCATION, SYMBOL = struct.Struct("<QQ"), struct.Struct("<QQq"), struct.Struct("<IBBHQQ")
FUNCTION_TYPES, DATA_TYPES = (0, 2, 10), (0, 1)
MOST_MEMORY = 2**34  # an object that asks for more is damaged
MOST_SYMBOLS = 2**20
LONGEST_NAME = 4096


class BadObject(ValueError):
    """The bytes are no shared object this machine loads; the text says why."""


@dataclass(frozen=True)
class Segment:
    """A part of the file that is mapped: `file_bytes` of `memory_bytes` come from the file."""

    offset: int
    address: int
    file_bytes: int
    memory_bytes: int
    flags: int

    @property
    def readable(self) -> bool:
        return bool(self.flags & READABLE)

    @property
    def writable(self) -> bool:
        return bool(self.flags & WRITABLE)

    def holds(self, address: int, size: int = 0) -> bool:
        """Whether memory of the segment has these bytes."""
        return self.address <= address and address + size <= self.address + self.memory_bytes


@dataclass(frozen=True)
class Symbol:
    """A name the object defines for others; `address` counts from where it is loaded."""

    address: int
    size: int
    is_function: bool
    is_data: bool


@dataclass(frozen=True)
class Object:
    """A shared object that is whole."""

    data: bytes = field(repr=False)
    headers_end: int  #: where the program headers end; 0 when the first segment does not begin with them
    segments: tuple[Segment, ...]
    symbols: dict[str, Symbol]

    def read(self, address: int, size: int, what: str = "data") -> bytes:
        """The bytes the file has for an address. BadObject where it has none."""
        if not size:
            return b""
        for segment in self.segments:
            start = address - segment.address
            if start >= 0 and start + size <= segment.file_bytes:
                return self.data[segment.offset + start:segment.offset + start + size]
        raise BadObject(f"{what} that lies outside the file")


def read_object(data: bytes) -> Object | None:
    """The object in these bytes of a file; None for a format of another system, which its loader checks.

    Raises BadObject.
    """
    if data.startswith(FOREIGN_MAGIC):
        return None
    if not data:
        raise BadObject("an empty file")
    if not data.startswith(b"\x7fELF"):
        raise BadObject(f"a file that begins with {data[:8]!r}, no shared object")
    return _Reader(data).read()


class _Reader:
    """One pass over an ELF file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> Object:
        (kind, machine, _, _, programs, sections, _, _, entry_size, count, section_size, section_count,
         _) = self._header()
        if kind != DYNAMIC_LIBRARY:
            raise BadObject(f"an ELF file of type {kind}, no shared object")
        wanted = MACHINES.get(platform.machine().lower())
        if wanted is not None and machine != wanted:
            raise BadObject(f"an object for machine {machine}, not for this one ({platform.machine()}, {wanted})")
        self._check_sections(sections, section_size, section_count)
        segments, dynamic = self._segments(self._table(programs, "<IIQQQQQQ", entry_size, count, "the program headers"))
        at_start = segments[0].readable and segments[0].offset == segments[0].address == 0
        self.machine = machine
        self.object = Object(self.data, programs + entry_size * count if at_start else 0, segments, {})
        entries = self._dynamic(dynamic)
        self._check_relocations(entries, self._symbols(entries))
        return self.object

    def _unpack(self, form: str, offset: int, what: str) -> tuple[int, ...]:
        if offset < 0 or offset + struct.calcsize(form) > len(self.data):
            raise BadObject(f"{len(self.data)} bytes, cut off before the end of {what}")
        return struct.unpack_from(form, self.data, offset)

    def _table(self, offset: int, form: str, size: int, count: int, what: str) -> Iterator[tuple[int, ...]]:
        if size != struct.calcsize(form):
            raise BadObject(f"{what} of {size} bytes an entry")
        if count and offset + size * count > len(self.data):
            raise BadObject(f"{len(self.data)} bytes, cut off before the end of {what}")
        return (self._unpack(form, offset + i * size, what) for i in range(count))

    def _header(self) -> tuple[int, ...]:
        ident = self._unpack("<16B", 0, "the header")
        if (ident[4], ident[5]) != (WIDE, LITTLE):
            bits, order = {1: "32", 2: "64"}.get(ident[4], "?"), {1: "little", 2: "big"}.get(ident[5], "?")
            raise BadObject(f"an object of {bits} bits, {order}-endian, not of 64 bits, little-endian")
        if ident[6] != 1:
            raise BadObject(f"ELF version {ident[6]}")
        return self._unpack("<HHIQQQIHHHHHH", 16, "the header")

    def _check_sections(self, offset: int, size: int, count: int) -> None:
        """Nothing loads sections, but they end the file: one that is cut off shows here."""
        if not offset:
            return
        for section in self._table(offset, "<IIQQQQIIQQ", size, count, "the sections"):
            if section[1] != NO_BITS and section[4] + section[5] > len(self.data):
                raise BadObject(f"{len(self.data)} bytes, cut off before the end of a section")

    def _segments(self, headers: Iterable[tuple[int, ...]]) -> tuple[tuple[Segment, ...], tuple[int, int]]:
        segments: list[Segment] = []
        dynamic: list[tuple[int, int]] = []
        for kind, flags, offset, address, _, file_bytes, memory_bytes, align in headers:
            if kind in (LOAD, DYNAMIC) and offset + file_bytes > len(self.data):
                raise BadObject(f"{len(self.data)} bytes, cut off before the end of a segment")
            if kind == DYNAMIC:
                dynamic.append((address, file_bytes))
            if kind == READ_ONLY_LATER and not any(s.writable and s.holds(address, memory_bytes) for s in segments):
                raise BadObject("data that is to be read-only and is not there")
            if kind == LOAD:
                end = segments[-1].address + segments[-1].memory_bytes if segments else 0
                if (file_bytes > memory_bytes or align & (align - 1) or (align > 1 and (address - offset) % align)
                        or address < end or address + memory_bytes > MOST_MEMORY):
                    raise BadObject("a segment that cannot be mapped")
                segments.append(Segment(offset, address, file_bytes, memory_bytes, flags))
        if not segments or len(dynamic) != 1:
            raise BadObject("an object without segments to load, or without dynamic data")
        return tuple(segments), dynamic[0]

    def _dynamic(self, place: tuple[int, int]) -> dict[int, int]:
        address, size = place
        raw = self.object.read(address, size - size % ENTRY.size, "dynamic data")
        entries: dict[int, int] = {}
        for tag, value in ENTRY.iter_unpack(raw):
            if tag == 0:
                break
            entries[tag] = value
        else:
            raise BadObject("dynamic data without an end")
        for table, length in ((RELA, RELASZ), (JMPREL, PLTRELSZ), (STRTAB, STRSZ), *CALLED):
            if (table in entries) != (length in entries):
                raise BadObject("a dynamic table without its length, or a length without its table")
            self.object.read(entries.get(table, 0), entries.get(length, 0), "a dynamic table")
        for function in (INIT, FINI):
            if function in entries and not self._in_memory(entries[function], flags=EXECUTABLE):
                raise BadObject("a function at load or unload that is no code")
        for table in (PLTGOT, VERSYM, VERNEED):
            if table in entries and not self._in_memory(entries[table]):
                raise BadObject("a dynamic table that is not there")
        return entries

    def _in_memory(self, address: int, size: int = 0, flags: int = 0) -> bool:
        return any(part.holds(address, size) and part.flags & flags == flags for part in self.object.segments)

    def _check_relocations(self, dynamic: dict[int, int], symbols: int) -> None:
        """The loader writes where they say, and calls what they name."""
        relative, by_function = RELATIVE.get(self.machine, (-1, -1))
        size = RELOCATION.size
        if dynamic.get(RELAENT, 0 if RELA in dynamic else size) != size or dynamic.get(PLTREL, RELA) != RELA:
            raise BadObject("relocations of an unknown form")
        if dynamic.get(RELACOUNT, 0) * size > dynamic.get(RELASZ, 0):
            raise BadObject("more relocations than there are")
        filled: dict[int, int] = {}
        for table, length in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
            raw = self.object.read(dynamic.get(table, 0), dynamic.get(length, 0))
            if len(raw) % size or len(raw) // size > MOST_SYMBOLS:
                raise BadObject(f"{len(raw)} bytes of relocations")
            for offset, info, addend in RELOCATION.iter_unpack(raw):
                kind = info & 0xFFFFFFFF
                if not self._in_memory(offset, 8, WRITABLE) or 0 < symbols <= info >> 32:
                    raise BadObject("a relocation of what is not there")
                if (kind == relative and not self._in_memory(addend)) or (
                        kind == by_function and not self._in_memory(addend, flags=EXECUTABLE)):
                    raise BadObject("a relocation to what is not there")
                filled[offset] = addend if kind == relative else 0
        for table, length in CALLED if RELR not in dynamic else ():  # packed relocations are not read here
            for slot in range(dynamic.get(table, 0), dynamic.get(table, 0) + dynamic.get(length, 0), 8):
                if slot not in filled or (filled[slot] and not self._in_memory(filled[slot], flags=EXECUTABLE)):
                    raise BadObject("a function at load or unload that is no code")

    def _symbols(self, dynamic: dict[int, int]) -> int:
        """Fills in the symbols others may use, and returns how many there are of any kind, 0 when it is not told."""
        if not {STRTAB, STRSZ, SYMTAB} <= dynamic.keys() or not {GNU_HASH, HASH} & dynamic.keys():
            raise BadObject("an object without exported symbols")
        if dynamic.get(SYMENT) != SYMBOL.size:
            raise BadObject(f"symbols of {dynamic.get(SYMENT)} bytes")
        count = self._count_gnu(dynamic[GNU_HASH]) if GNU_HASH in dynamic else self._words(dynamic[HASH], 2)[1]
        if count > MOST_SYMBOLS:
            raise BadObject(f"{count} symbols, more than {MOST_SYMBOLS}")
        names = self.object.read(dynamic[STRTAB], dynamic[STRSZ], "the names of symbols")
        raw = self.object.read(dynamic[SYMTAB], count * SYMBOL.size, "the symbols")
        for name, info, _, section, address, size in SYMBOL.iter_unpack(raw):
            end = names.find(b"\0", name, name + LONGEST_NAME)
            if section == 0 or info >> 4 not in (1, 2) or end < 0:  # undefined, local, or without a name
                continue
            kind = info & 0xF
            if section != ABSOLUTE and kind != 6 and not self._in_memory(address):  # 6: of each thread
                raise BadObject("a symbol that is not there")
            self.object.symbols[names[name:end].decode("utf-8", "backslashreplace")] = Symbol(
                address, size, kind in FUNCTION_TYPES, kind in DATA_TYPES)
        return count

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.object.read(address, 4 * count, "the hash table"))

    def _count_gnu(self, address: int) -> int:
        """The number of symbols, 0 when none is exported: the hash table says it only by where its last chain ends."""
        buckets, first, bloom, _ = self._words(address, 4)
        if not buckets or not bloom or bloom & (bloom - 1) or max(buckets, bloom) > MOST_SYMBOLS:
            raise BadObject("a damaged hash table of symbols")
        chains = address + 16 + 8 * bloom + 4 * buckets
        heads = self._words(chains - 4 * buckets, buckets)
        if any(0 < head < first for head in heads):
            raise BadObject("a damaged hash table of symbols")
        last = max(heads)
        if last < first:
            return 0
        while last < MOST_SYMBOLS and not self._words(chains + 4 * (last - first), 1)[0] & 1:
            last += 1
        return last + 1
