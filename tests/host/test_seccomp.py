"""The filter says of each call what it should, on each kind of processor: it is run here as the kernel would run it."""

import errno
import os
import struct

import pytest

from metier.sandbox import kernel, syscalls

ALLOW = 0x7FFF0000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
CLONE = {"x86_64": 56, "aarch64": 220}
IOCTL = {"x86_64": 16, "aarch64": 29}
READ = {"x86_64": 0, "aarch64": 63}
CHMOD = {"x86_64": 268, "aarch64": 53}


def answer(program: bytes, machine: str, number: int, *arguments: int, arch: int = 0) -> int:
    """0 where the call goes on, else the error it is answered with."""
    given = (*arguments, *(0,) * (6 - len(arguments)))
    seen = struct.pack("=iIQ6Q", number, arch or ARCH[machine], 0, *given)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", seen, value)
        elif code == 0x06:
            return 0 if value == ALLOW else value & 0xFFFF
        else:
            held = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += yes if held else no


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_call_that_is_named_is_refused_and_no_other(machine: str):
    program = kernel.build_filter(False, machine=machine)
    column = 0 if machine == "x86_64" else 1
    refused = {calls[column]: errno.EPERM for calls in syscalls.FORBIDDEN_CALLS.values()}
    refused |= {calls[column]: errno.ENOSYS for calls in syscalls.ABSENT_CALLS.values()}
    refused[SOCKET[machine]] = refused[SOCKETPAIR[machine]] = errno.EPERM  # of no family
    for number in range(600):
        assert answer(program, machine, number) == refused.get(number, 0), number


def test_sockets_are_for_the_network_only_and_only_when_it_is_allowed(machine: str):
    allowed = {
        family
        for family in range(46)
        if not answer(kernel.build_filter(True, machine=machine), machine, SOCKET[machine], family)
    }
    assert allowed == {2, 10, 16}
    assert all(
        answer(kernel.build_filter(False, machine=machine), machine, SOCKET[machine], family) for family in range(46)
    )


@pytest.mark.parametrize("network", [False, True])
def test_only_streams_come_in_pairs(machine: str, network: bool):
    program, closed = kernel.build_filter(network, machine=machine), 0o2000000
    pairs = {
        (family, kind)
        for family in range(46)
        for kind in range(1, 6)
        if not answer(program, machine, SOCKETPAIR[machine], family, kind | closed)
    }
    assert pairs == {(1, 1), (1, 4), (1, 5)}  # UNIX: a stream, messages in order, and a kind that it does not have


@pytest.mark.parametrize(("rights", "given"), [(0o6000, (0o4755, 0o2755)), (0o4000, (0o4755,)), (0, ())])
def test_no_mode_is_set_that_gives_rights_away(machine: str, rights: int, given: tuple[int, ...]):
    program = kernel.build_filter(False, rights=rights, machine=machine)
    for name, columns in syscalls.MODE_CALLS.items():
        if (number := columns[machine == "aarch64"]) < 0:
            continue
        before = (0,) * syscalls.MODE_ARGUMENTS[name]
        for mode in (0o755, 0o1777, 0o4755, 0o2755):
            assert answer(program, machine, number, *before, mode) == (errno.EPERM if mode in given else 0), name


@pytest.mark.parametrize("rights", [0o6000, 0])
def test_no_file_is_made_that_gives_rights_away(machine: str, rights: int):
    program, column = kernel.build_filter(False, rights=rights, machine=machine), int(machine == "aarch64")
    for columns, argument in syscalls.MAKING_CALLS.values():
        if columns[column] >= 0:
            before = (0,) * argument
            assert answer(program, machine, columns[column], *before, 0o100755) == 0
            assert answer(program, machine, columns[column], *before, 0o104755) == errno.EPERM
    for columns, argument in syscalls.OPENING_CALLS.values():
        if columns[column] >= 0:
            before = (0,) * argument
            for flags in (os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_RDWR):
                assert answer(program, machine, columns[column], *before, flags, 0o644) == 0
                assert answer(program, machine, columns[column], *before, flags, 0o4755) == errno.EPERM
                assert answer(program, machine, columns[column], *before, flags, 0o2755) == errno.EPERM
            assert answer(program, machine, columns[column], *before, os.O_RDONLY, 0o4755) == 0  # no mode, but chance


@pytest.mark.parametrize("flag", [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_processes_and_threads_are_made_but_no_namespace(machine: str, flag: int):
    program = kernel.build_filter(False, machine=machine)
    assert answer(program, machine, CLONE[machine], 17) == 0
    assert answer(program, machine, CLONE[machine], 0x3D0F00) == 0
    assert answer(program, machine, CLONE[machine], flag | 17) == errno.EPERM


def test_a_terminal_can_be_asked_for_its_size_but_nothing_typed_into_it(machine: str):
    program = kernel.build_filter(False, machine=machine)
    assert answer(program, machine, IOCTL[machine], 1, 0x5413) == 0
    assert answer(program, machine, IOCTL[machine], 1, 0x5412) == errno.EPERM
    assert answer(program, machine, IOCTL[machine], 1, 0xFFFFFFFF_00005412) == errno.EPERM
    assert answer(program, machine, IOCTL[machine], 1, 0x541C) == errno.EPERM


def test_another_kind_of_processor_or_calling_is_refused_whole(machine: str):
    program = kernel.build_filter(True, machine=machine)
    assert answer(program, machine, READ[machine], arch=0x40000003) == errno.ENOSYS
    if machine == "x86_64":
        assert answer(program, machine, 0x40000000) == errno.ENOSYS


def test_modes_by_path_are_changed_only_where_they_may_be(machine: str):
    assert answer(kernel.build_filter(False, machine=machine), machine, CHMOD[machine]) == 0
    assert answer(kernel.build_filter(False, modes=False, machine=machine), machine, CHMOD[machine]) == errno.EPERM


@pytest.mark.parametrize("name", ["fchmod", "fchown", "fsetxattr", "fremovexattr"])
def test_an_open_file_is_no_way_around_what_its_path_is_refused(machine: str, name: str):
    calls = {**syscalls.MODE_CALLS, **syscalls.OWNER_CALLS, **syscalls.ATTRIBUTE_CALLS}
    number = calls[name][machine == "aarch64"]
    assert answer(kernel.build_filter(False, machine=machine), machine, number) == 0
    refused = answer(kernel.build_filter(False, modes=False, marks=False, machine=machine), machine, number)
    assert refused == (errno.EOPNOTSUPP if name in syscalls.ATTRIBUTE_CALLS else errno.EPERM)


@pytest.mark.parametrize("request_", syscalls.FORBIDDEN_IOCTLS)
def test_nothing_that_changes_a_file_is_asked_of_an_open_one(machine: str, request_: int):
    assert answer(kernel.build_filter(False, machine=machine), machine, IOCTL[machine], 3, request_) == errno.EPERM


@pytest.mark.parametrize("name", syscalls.BY_ID)
def test_only_its_own_limits_and_schedule_are_a_programs_to_set(machine: str, name: str):
    number = syscalls.BY_ID[name][machine == "aarch64"]
    program = kernel.build_filter(False, others=False, machine=machine)
    assert answer(program, machine, number, 0) == 0
    assert answer(program, machine, number, 4711) == errno.EPERM
    assert answer(kernel.build_filter(False, machine=machine), machine, number, 4711) == 0


@pytest.mark.parametrize("name", syscalls.BY_KIND)
def test_only_its_own_priority_is_a_programs_to_set(machine: str, name: str):
    numbers, everything = syscalls.BY_KIND[name]
    number = numbers[machine == "aarch64"]
    program = kernel.build_filter(False, others=False, machine=machine)
    assert answer(program, machine, number, everything - 2, 0) == 0
    assert answer(program, machine, number, everything - 2, 4711) == errno.EPERM
    assert answer(program, machine, number, everything, 0) == errno.EPERM


def test_how_much_waits_in_a_socket_is_passed_over_and_nothing_is_hidden_from_the_watch(machine: str):
    program = kernel.build_filter(True, machine=machine)
    steps = [value for code, _, _, value in struct.iter_unpack("=HBBI", program) if code == 0x06]
    assert 0x00050000 in steps
    assert answer(program, machine, {"x86_64": 157, "aarch64": 167}[machine], 4, 0) == errno.EPERM
    assert answer(program, machine, {"x86_64": 157, "aarch64": 167}[machine], 1, 9) == 0


def test_an_unknown_processor_has_no_filter():
    assert not kernel.is_supported("riscv64")
