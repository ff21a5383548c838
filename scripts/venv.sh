#!/bin/sh
# Makes .venv (`venv.sh make`), or adds one more file of requirements to it (`venv.sh add FILE`).
# Every package is pinned and hashed; uv does the work where there is one, pip elsewhere.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
inside=.venv/bin/python

stop() {
    printf 'make venv: %s\n' "$@" >&2
    exit 1
}

have_uv() { command -v uv >/dev/null 2>&1; }

check_python() {
    command -v "$python" >/dev/null 2>&1 ||
        stop "no '$python' on PATH. Name a Python 3.11 or newer: make venv PYTHON=python3.12"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        stop "metier needs Python 3.11 or newer, and '$python' is $("$python" -V 2>&1)." \
            "Name another: make venv PYTHON=python3.12"
}

create() {
    check_python
    if have_uv; then
        uv venv --quiet --clear --no-python-downloads \
            --python "$("$python" -c 'import sys; print(sys.executable)')" .venv
    elif "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv --clear .venv
    else
        stop "'$python' cannot make virtual environments: its venv or ensurepip module is missing." \
            "On Debian and Ubuntu: apt-get install python3-venv"
    fi
}

# What .venv was made with may have gone since: its interpreter, or uv, which leaves no pip behind.
usable() {
    [ -x "$inside" ] && "$inside" -c '' 2>/dev/null && { have_uv || "$inside" -m pip --version >/dev/null 2>&1; }
}

install() {
    if have_uv; then
        uv pip install --quiet --python "$inside" "$@"
    else
        "$inside" -m pip install --quiet --no-input --disable-pip-version-check "$@"
    fi
}

# pip compiles to bytecode unasked.
install_pinned() {
    if have_uv; then set -- --compile-bytecode -r "$1"; else set -- -r "$1"; fi
    install --require-hashes "$@"
}

case "${1:-}" in
make)
    usable || create
    install_pinned requirements/dev.txt
    install --no-index --no-deps --no-build-isolation --editable .
    ;;
add)
    install_pinned "$2"
    ;;
*)
    stop "say 'venv.sh make' or 'venv.sh add FILE'"
    ;;
esac
