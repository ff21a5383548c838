"""One file for each product whose skills metier reads.

A module here defines `DIALECT`, and that is all it takes: its roots join the standard's, its name appears in help and
in error messages, and the sandbox protects its folders.  A list of products elsewhere would be a second file to edit,
so the package itself is the list.
"""

from __future__ import annotations

from ...host.paths import list_names
from ...types.dialect import Dialect

# Not `pkgutil.iter_modules`, which imports `inspect`: that alone takes longer than `metier list`.
_MODULES = [
    __import__(f"{__name__}.{file.removesuffix('.py')}", fromlist=("DIALECT",))
    for file in list_names(__path__[0]).files
    if file.endswith(".py") and file != "__init__.py"
]

PRODUCTS: tuple[Dialect, ...] = tuple(
    sorted((module.DIALECT for module in _MODULES), key=lambda dialect: (dialect.precedence, dialect.name))
)
"""The dialect of every product, in order of precedence."""
