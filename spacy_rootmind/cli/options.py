"""Options of the command `parse`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STDOUT = "-"
# In characters: spaCy's tokenizer takes half a second for the worst words of this length.
MAX_WORD_LENGTH = 1000


@dataclass
class ParseOptions:
    """Options of the command; see its help."""

    pipeline: str
    inputs: list[str]
    output: str = STDOUT
    texts: list[str] = field(default_factory=list)
    from_format: str | None = None
    to_format: str | None = None
    paragraphs: bool = False
    max_word_length: int = MAX_WORD_LENGTH
    confidence: bool | None = None
    arcs: float | None = None
    distributions: float | None = None
    alternatives: str | None = None
    k: int = 5
    seed: int = 0
    labelled: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    code: Path | None = None
    gpu_id: int = -1
    batch_size: int | None = None
    n_process: int = 1
    strict: bool = False
    resume: bool = False
    force: bool = False
    progress: bool | None = None
    quiet: bool = False
    # Names of the options that were given, whatever their values.
    given: frozenset[str] = frozenset()

    @property
    def is_stdout(self) -> bool:
        """Whether the output is printed."""
        return self.output == STDOUT

    @property
    def n_workers(self) -> int:
        """Number of processes."""
        return (os.cpu_count() or 1) if self.n_process == -1 else self.n_process

    @property
    def output_name(self) -> str:
        """Name of the output in messages."""
        return "stdout" if self.is_stdout else self.output
