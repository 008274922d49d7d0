from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol, final, overload

import pyarrow

__version__: str

class KindlmError(ValueError):
    """The checks, the config or the records are invalid, or a check needs a judge that does not exist."""

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Evaluator:
    """Checks records. Several threads can use an evaluator at once, and it can be pickled.

    `expect` has the checks, in the form of `expect` in a `kindlm.yaml`: a mapping, a list of checks, or a text in JSON or
    YAML. A mapping with `assertions`, `expect` or `threshold` sets these keys of each record.

    `config` is the path of a `kindlm.yaml` with the judges. Without a config, there is no judge. The keys of providers are
    read from the environment.

    `threads` is the number of records that are evaluated at once. The default is the number of CPUs, and at least 8 with a
    config, because records wait for judges.
    """

    def __new__(
        cls,
        expect: Mapping[str, Any] | Sequence[Any] | str,
        config: str | PathLike[str] | None = None,
        *,
        threads: int | None = None,
    ) -> Evaluator: ...
    @overload
    def evaluate(self, records: pyarrow.RecordBatch) -> pyarrow.RecordBatch: ...
    @overload
    def evaluate(self, records: pyarrow.Table | _ArrowStream) -> pyarrow.Table: ...
    @overload
    def evaluate(self, records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str, str | None], dict[str, int | None]]: ...
