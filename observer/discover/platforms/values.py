"""Sources of values in platform documents: where a text or number comes from, and how it is shaped."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from observer.yamldoc.quantities import OneOrMany, TextMap

Texts = Annotated[tuple[tuple[str, str], ...], TextMap()]
"""A mapping of texts, in the order written."""


class Take(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where one value comes from. Exactly one of the keys up to ``fixed``; a plain text stands for ``field``."""

    SHORTHAND: ClassVar[str] = "field"

    field: Annotated[
        str | None,
        Meta(description="Path in the target, as `spec.roles[name={role}].kind`."),
    ] = None
    item: Annotated[str | None, Meta(description="Path in the list item that the role is made from.")] = None
    label: Annotated[str | None, Meta(description="Label of the Pod (of the target where no Pod is at hand).")] = None
    annotation: Annotated[str | None, Meta(description="Annotation of the Pod (of the target likewise).")] = None
    image: Annotated[bool, Meta(description="The image of the Pod's serving container, tag included.")] = False
    argument: Annotated[
        str | None, Meta(description="Value of a flag of the serving container's command line, as `--model`.")
    ] = None
    port: Annotated[str | None, Meta(description="Number of the declared container port of this name.")] = None
    owner: Annotated[str | None, Meta(description="Name of the Pod's controller, where that is of this kind.")] = None
    fixed: Annotated[str | None, Meta(description="This text; `{name}`, `{namespace}` and `{role}` are filled in.")] = (
        None
    )
    pattern: Annotated[
        str | None, Meta(description="Regular expression to search for; its first group is the value, else no value.")
    ] = None
    map: Annotated[
        Texts, Meta(description="Translation of the value, letter case aside; a value that is not named is kept.")
    ] = ()
    only_mapped: Annotated[bool, Meta(description="A value that `map` does not name is no value.")] = False
    absent: Annotated[str | None, Meta(description="What an absent value means.")] = None
    own: Annotated[bool, Meta(description="With `port`: only of the serving container, not of those beside it.")] = (
        False
    )


Takes = Annotated[tuple[Take, ...], OneOrMany()]
"""Sources in order; the first that gives a value counts."""


class Count(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A whole number: the value, times other numbers, plus a constant. Not known when one of them is not."""

    SHORTHAND: ClassVar[str] = "value"

    value: Annotated[Takes, Meta(description="Where the number comes from.")]
    times: Annotated[tuple[Take, ...], Meta(description="Numbers it is multiplied with.")] = ()
    plus: Annotated[int, Meta(description="Added at the end.")] = 0
    absent: Annotated[int | None, Meta(description="What an absent value means.")] = None
