"""`launch.py` removes what a killed run left behind, but not while Snakemake is at work in the folder."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dphrl.machine.leftovers import AtWorkError, remove_leftovers
from dphrl.store.files import parts_folder

LAUNCH = Path(__file__).resolve().parents[2] / "workflow_scripts/launch.py"
# A wait of ten seconds for a job. The Snakefile too imports polars after the handlers are set.
WAITING = """
import os, threading
from dphrl.machine.leftovers import JobsEnder
ender = JobsEnder()
import polars
for seconds, *call in (0.2, os.kill, (os.getpid(), {number})), (10, os._exit, (1,)):
    timer = threading.Timer(seconds, *call)
    timer.daemon = True
    timer.start()
job = threading.Lock()
job.acquire()
try:
    job.acquire()
except KeyboardInterrupt:
    print("interrupted by", ender.number)
"""


def launched(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(LAUNCH), "--version", "--directory", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def left_behind(folder: Path, host: str) -> Path:
    """A lock and the temporary file of a job, and the host that they are from."""
    (folder / ".snakemake/locks").mkdir(parents=True)
    (folder / ".snakemake/locks/0.input.lock").touch()
    (folder / ".snakemake/started_on").write_text(host)
    temporary = folder / "results/demo/.rollouts.tmp"
    temporary.parent.mkdir(parents=True)
    temporary.touch()
    return temporary


def test_a_run_of_another_machine_is_left_alone(tmp_path: Path) -> None:
    temporary = left_behind(tmp_path, "login1")
    with pytest.raises(
        AtWorkError, match=rf"was started on login1 .* in {tmp_path}\..* rm -r {tmp_path}/.snakemake/locks"
    ):
        remove_leftovers(tmp_path)
    assert temporary.exists()


def test_what_a_killed_run_of_this_machine_left_is_removed_but_not_finished_parts(tmp_path: Path) -> None:
    temporary = left_behind(tmp_path, socket.gethostname())
    part = parts_folder(temporary.with_name("0.parquet")) / "0.parquet"
    part.parent.mkdir()
    part.touch()
    remove_leftovers(tmp_path)
    assert not temporary.exists()
    assert part.exists()
    assert not (tmp_path / ".snakemake/locks").exists()
    assert (tmp_path / ".snakemake/started_on").read_text() == socket.gethostname()


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".snakemake").touch()
    found = launched(tmp_path)
    assert found.returncode == 1
    assert f"'{tmp_path}/.snakemake'" in found.stderr
    assert found.stderr.count("\n") == 1


# A job that ends when there is a file `end`.
WORKFLOW = "rule:\n    output: 'done'\n    script: 'work.py'\n"
WORK = """
import time
from pathlib import Path
Path("started").touch()
while not Path("end").exists():
    time.sleep(0.05)
Path("done").touch()
"""


@pytest.mark.parametrize(
    "program", [[str(LAUNCH)], pytest.param(["-m", "snakemake"], marks=pytest.mark.full)], ids=["launcher", "snakemake"]
)
def test_a_second_launch_leaves_a_live_run_alone_however_it_was_started(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    (tmp_path / "work.py").write_text(WORK)
    python = [sys.executable, "-u", "-X", "faulthandler", "-W", "ignore"]
    with subprocess.Popen([*python, *program, "--cores", "1"], cwd=tmp_path, stderr=subprocess.DEVNULL) as first:
        while not (tmp_path / "started").exists():
            assert first.poll() is None
            time.sleep(0.05)
        second = launched(tmp_path)
        (tmp_path / "end").touch()
    assert second.returncode == 1
    assert second.stderr.startswith(f"Snakemake (process {first.pid}) is at work in {tmp_path}")
    assert first.returncode == 0
    assert (tmp_path / "done").exists()


def test_a_reader_of_the_log_is_no_run(tmp_path: Path) -> None:
    log = tmp_path / ".snakemake/log/1.snakemake.log"
    log.parent.mkdir(parents=True)
    log.write_text("read\n")
    with subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"read\n"
        remove_leftovers(tmp_path)
        reader.kill()


def linked(link: Path, to: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    to.mkdir(parents=True)
    link.symlink_to(to)


def test_a_temporary_file_that_is_a_link_is_removed_without_the_folder_that_it_names(tmp_path: Path) -> None:
    link, elsewhere = tmp_path / "results/demo/.x.tmp", tmp_path / "elsewhere"
    linked(link, elsewhere)
    (elsewhere / "file").touch()
    remove_leftovers(tmp_path)
    assert not link.is_symlink()
    assert (elsewhere / "file").exists()


@pytest.mark.parametrize("link", ["results", "results/demo", "results/demo/policies/base"])
def test_temporary_files_behind_a_link_to_a_folder_are_removed(link: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    linked(tmp_path / link, elsewhere)
    (elsewhere / ".x.tmp").mkdir()
    (elsewhere / "back").symlink_to(tmp_path)
    remove_leftovers(tmp_path)
    assert [path.name for path in elsewhere.iterdir()] == ["back"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_the_wait_for_a_job(number: signal.Signals) -> None:
    program = [sys.executable, "-c", WAITING.format(number=int(number))]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout == f"interrupted by {int(number)}\n"
