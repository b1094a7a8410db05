"""The memory that :func:`finish_fork` copies: the data of the libraries."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from cardapp.session_host.gdb_plugin.checkpoint_processes import library_data


def test_the_data_of_libraries_is_found_and_nothing_else() -> None:
    # The address in the pointer, because the pointer itself may have been moved into the program's data.
    data = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout").value
    assert data is not None
    found = list(library_data(os.getpid()))
    assert any(start <= data < end for start, end in found)
    program = os.readlink("/proc/self/exe")
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith((program, "[stack]", "[heap]")) or " r--p " in line or " r-xp " in line:
            start = int(line.partition("-")[0], 16)
            assert not any(first <= start < end for first, end in found), line
