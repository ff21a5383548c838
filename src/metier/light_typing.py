"""The parts of `typing` that our values need at run time, for modules that every command imports.

Importing `typing` takes as long as listing a hundred skills, and its `NamedTuple` compiles a constructor for every
class: together they were a quarter of what `metier list` took. To a type checker everything here is the original. At
run time `NamedTuple` has one constructor for all classes, and the rest does nothing. Modules that use it need
`from __future__ import annotations`, so that annotations stay text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import (
        Any as Any,
    )
    from typing import (
        Literal as Literal,
    )
    from typing import (
        NamedTuple as NamedTuple,
    )
    from typing import (
        Protocol as Protocol,
    )
    from typing import (
        TypeAlias as TypeAlias,
    )
    from typing import (
        cast as cast,
    )
    from typing import (
        get_args as get_args,
    )
    from typing import (
        overload as overload,
    )
else:
    Any = TypeAlias = object

    class Protocol:
        """A class that says what another must be able to do."""

    class _LiteralForm:
        # The type of `list[int]`: `typing.get_args` knows it, and it can be joined by `|`.
        _alias = type(list[int])

        def __getitem__(self, values):
            return self._alias(tuple, values)

    Literal = _LiteralForm()

    def get_args(alias):
        return alias.__args__

    def cast(kind, value):
        return value

    def overload(function):
        return function

    # Reads a field at the speed of a slot; what `collections.namedtuple` uses.
    from _collections import _tuplegetter

    _new_tuple = tuple.__new__

    def _construct(cls, /, *values, **named):
        if named or len(values) != len(cls._fields):
            values = _complete(cls, values, named)
        return _new_tuple(cls, values)

    def _complete(cls, values, named):
        """All values in order: the positional ones, then the named ones and the defaults."""
        fields = cls._fields
        if not named and cls._required <= len(values) < len(fields):
            return values + cls._defaults[len(values) - cls._required :]
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__}() takes at most {len(fields)} values ({len(values)} given)")
        defaults = cls._field_defaults
        rest = []
        missing = []
        for name in fields[len(values) :]:
            if name in named:
                rest.append(named.pop(name))
            elif name in defaults:
                rest.append(defaults[name])
            else:
                missing.append(name)
        if named:
            name = next(iter(named))
            twice = name in fields
            what = "multiple values for argument" if twice else "an unexpected keyword argument"
            raise TypeError(f"{cls.__name__}() got {what} {name!r}")
        if missing:
            raise TypeError(f"{cls.__name__}() missing required values: {', '.join(missing)}")
        return (*values, *rest)

    def _make(cls, values):
        values = tuple(values)
        if len(values) != len(cls._fields):
            raise TypeError(f"{cls.__name__} has {len(cls._fields)} values, not {len(values)}")
        return _new_tuple(cls, values)

    def _replace(self, /, **changes):
        changed = [changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
        if changes:
            raise ValueError(f"{type(self).__name__} has no fields {', '.join(changes)}")
        return _new_tuple(type(self), changed)

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        values = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
        return f"{type(self).__name__}({values})"

    class _FieldSignature:
        """What `help` and editors show for the constructor."""

        def __get__(self, value, cls):
            from inspect import Parameter, Signature

            defaults = cls._field_defaults
            return Signature(
                [
                    Parameter(
                        name,
                        Parameter.POSITIONAL_OR_KEYWORD,
                        default=defaults.get(name, Parameter.empty),
                        annotation=cls.__annotations__[name],
                    )
                    for name in cls._fields
                ]
            )

    _METHODS = {
        "__signature__": _FieldSignature(),
        "__new__": _construct,
        "_make": classmethod(_make),
        "_replace": _replace,
        "__replace__": _replace,
        "_asdict": _asdict,
        "__repr__": _repr,
        "__getnewargs__": lambda self: tuple(self),
    }

    class _NamedTupleMeta(type):
        """Turns the annotations of a class into the fields of a tuple."""

        def __new__(mcs, name, bases, namespace):
            if not bases:
                return type.__new__(mcs, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            required = len(fields) - len(defaults)
            if tuple(defaults) != fields[required:]:
                raise TypeError(f"{name}: a field without a default follows one that has a default")
            made = {"__slots__": (), **_METHODS, **namespace, "_fields": fields, "__match_args__": fields}
            made.update(_field_defaults=defaults, _defaults=tuple(defaults.values()), _required=required)
            for place, field in enumerate(fields):
                made[field] = _tuplegetter(place, field)
            # A plain class of `tuple`: classes that derive from it are ordinary too.
            return type(name, (tuple,), made)

    class NamedTuple(metaclass=_NamedTupleMeta):
        """A tuple whose fields have names."""
