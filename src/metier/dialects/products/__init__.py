"""One file for each product whose skills metier reads.

A module here defines `DIALECT`, and that is all it takes: its roots join the standard's, its name appears in help and
in error messages, and the sandbox protects its folders.  A list of products elsewhere would be a second file to edit,
so the package itself is the list.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ...types.dialect import Dialect

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]

PRODUCTS: tuple[Dialect, ...] = tuple(
    sorted((module.DIALECT for module in _MODULES), key=lambda dialect: (dialect.precedence, dialect.name))
)
"""The dialect of every product, in order of precedence."""
