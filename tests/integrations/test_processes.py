"""Two real processes over gloo, once for all adapters, because the libraries take seconds to import."""

from pathlib import Path

from torch.multiprocessing.spawn import spawn

from tests.integrations.processes import work


def test_two_processes_equal_their_peers_and_one_process(tmp_path: Path) -> None:
    spawn(work, args=(2, str(tmp_path / "rendezvous")), nprocs=2)
