"""SynJax's Wilson sampler in a separate process, which is killed when it hangs.

The sampler draws the root word among candidates that include ROOT itself, whose marginal it raises
from 0 to 1e-4. If ROOT is drawn, no word can reach it, and the walk does not end. So each binding
first looks for a seed with which the sampler returns.
"""

import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checkouts import load_file
from lib.decoders import Call
from lib.inputs import Batch

# Seconds; the start includes compilation.
START_TIMEOUT, CALL_TIMEOUT = 120.0, 10.0
SEEDS = 10


class HangError(TimeoutError):
    """The sampler did not return in time."""


class SynjaxWilson:
    """A process that samples; started when it is first needed, and again after a hang.

    Attributes
    ----------
    calls, hangs : int
        Number of calls with a new seed, and of those that did not return.
    """

    def __init__(self, file: Path, timeout: float = CALL_TIMEOUT) -> None:
        self.file = file
        self.timeout = timeout
        self.calls = self.hangs = 0
        self._process: Any = None
        self._pipe: Any = None
        self._given: Any = None

    def check(self) -> None:
        """Draw one tree, to check that the sampler works."""
        scores = np.zeros((1, 3, 3))
        self.bind(Batch(scores, np.array([2])), 1)()

    def bind(self, batch: Batch, k: int) -> Call:
        """Bind to a batch, with a seed that does not hang."""
        potentials = [_to_potentials(scores, k) for scores in batch.sentences()]
        for seed in range(SEEDS):
            self.calls += 1
            try:
                self._ask(potentials, seed)
            except HangError:
                self.hangs += 1
                continue
            return lambda: self._ask(potentials, seed)
        raise HangError(f"does not return, with {SEEDS} seeds")

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = self._pipe = self._given = None

    def _ask(self, potentials: list[NDArray[np.float64]], seed: int) -> list[NDArray[np.int64]]:
        """Request trees; send the potentials unless the process already has them."""
        if self._process is None:
            self._start()
        if self._given is not potentials:
            self._pipe.send(potentials)
            self._receive(self.timeout)
            self._given = potentials
        self._pipe.send(seed)
        return self._receive(self.timeout)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, str(self.file)), daemon=True)
        self._process.start()
        other.close()
        self._receive(START_TIMEOUT)

    def _receive(self, timeout: float) -> Any:
        if not self._pipe.poll(timeout):
            self.stop()
            raise HangError(f"no answer within {timeout:g} s")
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _to_potentials(scores: NDArray[np.floating], k: int) -> NDArray[np.float64]:
    """Copy as potentials[head, dep], once per tree, as SynJax does."""
    turned = scores.T.astype(np.float64)
    np.fill_diagonal(turned, -np.inf)
    turned[:, 0] = 0
    return np.repeat(turned[None], k, axis=0)


# --- in the other process ----------------------------------------------------------------------


def serve(pipe: Connection, path: str) -> None:
    """Reply to potentials with True, and to a seed with trees, until the pipe is closed."""
    try:
        sample, set_seed = _load(Path(path))
    except Exception as error:  # report any error to the other process
        pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
        return
    pipe.send(True)
    potentials: list[NDArray[np.float64]] = []
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        if isinstance(request, list):
            potentials = request
            pipe.send(True)
            continue
        set_seed(request)
        with np.errstate(all="ignore"):
            pipe.send([sample(given) for given in potentials])


def _load(file: Path) -> tuple[Any, Any]:
    """Import one module, without JAX, and compile it."""
    import numba

    for name in ("synjax", "synjax._src"):
        sys.modules[name] = ModuleType(name)
    constants = load_file("synjax._src.constants", file.parents[1] / "constants.py")
    sys.modules["synjax._src"].constants = constants
    module = load_file("synjax_wilson", file)

    @numba.njit
    def set_seed(seed: int) -> None:
        np.random.seed(seed)  # noqa: NPY002 - Numba supports no other

    def sample(potentials: NDArray[np.float64]) -> NDArray[np.int64]:
        trees = module.vectorized_sample_wilson(potentials, None, True)
        trees[:, 0] = -1
        return trees

    with np.errstate(all="ignore"):
        sample(np.ones((1, 3, 3)))
    set_seed(0)
    return sample, set_seed
