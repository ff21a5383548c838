"""Run a program on a machine that lacks something: `python lacking.py WHAT,WHAT PROGRAM WORDS…`.

A filter of system calls answers as a kernel would that has no such thing: `landlock`, or `namespaces`.
"""

import ctypes
import os
import struct
import sys

LANDLOCK, UNSHARE, CLONE, CLONE3 = {"x86_64": (444, 272, 56, 435), "aarch64": (444, 97, 220, 435)}[os.uname().machine]
LOAD, EQUAL, HAS_BITS, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50001, 0x50026
NAMESPACES = 0x7E020000


def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def filtered(lacks: list[str]) -> bytes:
    code = [step(LOAD, 0)]
    if "landlock" in lacks:
        code += [step(EQUAL, LANDLOCK, 0, 1), step(RETURN, ENOSYS)]
    if "namespaces" in lacks:
        code += [step(EQUAL, UNSHARE, 0, 1), step(RETURN, EPERM), step(EQUAL, CLONE3, 0, 1), step(RETURN, ENOSYS)]
        code += [step(EQUAL, CLONE, 0, 4), step(LOAD, 16), step(HAS_BITS, NAMESPACES, 0, 1), step(RETURN, EPERM)]
        code += [step(RETURN, ALLOW)]
    return b"".join([*code, step(RETURN, ALLOW)])


def main(lacks: str, *argv: str) -> None:
    if lacks:
        program = filtered(lacks.split(","))
        kept = ctypes.create_string_buffer(program, len(program))
        head = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(kept))
        library = ctypes.CDLL(None, use_errno=True)
        assert library.prctl(38, 1, 0, 0, 0) == 0
        assert library.prctl(22, 2, ctypes.c_char_p(head), 0, 0) == 0
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(*sys.argv[1:])
