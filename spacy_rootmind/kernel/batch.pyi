OK: int
NO_TREE: int
BAD_SCORE: int
NO_MEMORY: int
LOST_DIGITS: int
MOST_THREADS: int

class Worker: ...
