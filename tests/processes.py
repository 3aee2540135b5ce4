"""Python code in processes of its own, without spaCy here."""

import subprocess
import sys
import textwrap


def run_python(code, *flags, timeout=120, **options):
    """Run code in a fresh interpreter; returns what it prints. Options are of `subprocess.run`."""
    command = [sys.executable, *flags, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
