"""Real processes over gloo: value and gradient are those of the full batch in one process."""

from pathlib import Path

import pytest
from torch.multiprocessing.spawn import spawn

from tests.kernels.distributed_worker import work, work_in_groups


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_several_processes_equal_one(world: int, tmp_path: Path) -> None:
    spawn(work, args=(world, str(tmp_path / "rendezvous")), nprocs=world)


def test_two_groups_of_two_are_two_batches(tmp_path: Path) -> None:
    spawn(work_in_groups, args=(4, str(tmp_path / "rendezvous")), nprocs=4)
