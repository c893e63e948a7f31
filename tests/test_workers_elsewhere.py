"""Sums over shards on loky, Dask, MPI and Ray, where they are installed: the numbers and bits of one process."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from sharded import KEYS, P, everything, in_one_process, load, loss, moments, quotient, same
from test_workers import bits, spawned

import autodiff as ad
from autodiff.workers import sums

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def needs(name):
    return pytest.importorskip(name, exc_type=ImportError)


@contextmanager
def loky(count):
    executor = needs("loky").ProcessPoolExecutor(count)
    try:
        yield executor
    finally:
        executor.shutdown(kill_workers=True)


#: The path for the workers' processes.
HERE = f"{Path(__file__).parent.parent}{os.pathsep}{Path(__file__).parent}"


@contextmanager
def dask(count):
    distributed = needs("distributed")
    os.environ["PYTHONPATH"] = HERE
    with distributed.LocalCluster(
        n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:
        yield client


class OnRay:
    def submit(self, f, *args):
        return needs("ray").remote(f).remote(*args).future()


@contextmanager
def ray(count):
    found = needs("ray")
    environment = {"env_vars": {"PYTHONPATH": HERE}}
    found.init(num_cpus=count, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        yield OnRay()
    finally:
        found.shutdown()


@contextmanager
def processes(count):
    with spawned(count) as pool:
        yield pool


ENGINES = {"loky": loky, "dask": dask, "ray": ray, "processes": processes}


@pytest.mark.parametrize("name", ENGINES)
def test_every_derivative_is_that_of_one_process(name):
    alone = everything(quotient(in_one_process(loss)), in_one_process(moments))
    with ENGINES[name](2) as on:
        shards = ad.shards(load, KEYS, on=on)
        ours = everything(quotient(ad.sum_over(loss, shards)), ad.sum_over(moments, shards))
        for what in alone:
            same(ours[what](), alone[what]())


@pytest.mark.parametrize("name", ENGINES)
def test_one_two_and_three_workers_give_the_same_bits(name):
    expected = bits(ad.sum_over(loss, ad.shards(load, KEYS)))
    for count in (1, 2, 3):
        with ENGINES[name](count) as on:
            total = ad.sum_over(loss, ad.shards(load, KEYS, on=on))
            for _ in range(2):
                assert bits(total) == expected


def test_a_worker_of_dask_that_is_killed_changes_no_bit():
    expected = bits(ad.sum_over(loss, ad.shards(load, KEYS)))
    with dask(2) as client:
        total = ad.sum_over(loss, ad.shards(load, KEYS, on=client))
        for _ in range(3):
            assert bits(total) == expected
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert bits(total) == expected


def test_a_cluster_without_workers_is_an_error_with_the_keys(monkeypatch):
    distributed = needs("distributed")
    monkeypatch.setattr(sums, "_PATIENCE_S", 1.0)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(ad.WorkerError, match=r"after 1 attempt(.|\n)*no worker is left(.|\n)*keys: 0, 1, 2, 3, 4"),
    ):
        ad.sum_over(loss, ad.shards(load, KEYS, on=client, retries=100))(P)


def test_errors_arrive_from_dask_as_themselves_and_a_shard_is_loaded_again():
    with dask(1) as client:
        shards = ad.shards(lambda key: open("/no/such/file"), [3], on=client)  # noqa: SIM115  it fails
        for _ in range(2):
            with pytest.raises(FileNotFoundError) as caught:
                ad.sum_over(loss, shards)(P)
        assert any("while loading the shard with the key 3" in note for note in caught.value.__notes__)


def test_mpi_workers_give_the_same_bits(tmp_path):
    needs("mpi4py")
    places = os.pathsep.join([os.environ["PATH"], os.path.dirname(sys.executable)])
    if not (run := shutil.which("mpiexec", path=places)):
        pytest.skip("there is no mpiexec")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from mpi4py.futures import MPIPoolExecutor\n"
        "import autodiff as ad\n"
        "from sharded import KEYS, load, loss\n"
        "from test_workers import bits\n"
        "if __name__ == '__main__':\n"
        "    with MPIPoolExecutor() as pool:\n"
        "        total = ad.sum_over(loss, ad.shards(load, KEYS, on=pool))\n"
        "        assert bits(total) == bits(ad.sum_over(loss, ad.shards(load, KEYS)))\n"
        "        print('same bits')\n"
    )
    more = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}
    command = [run, "-n", "3", sys.executable, "-m", "mpi4py.futures", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert "same bits" in done.stdout, done.stderr


def test_functions_of_the_main_program_travel_by_value(tmp_path):
    needs("loky")
    program = tmp_path / "program.py"
    program.write_text(
        "import loky, numpy as np, autodiff as ad\n"
        "def load(key): return (np.full(3, float(key)),)\n"
        "def f(w, x): return scale * ad.sum(w * x)\n"
        "scale = 2.0\n"
        "pool = loky.get_reusable_executor(1)\n"
        "print(ad.grad(ad.sum_over(f, ad.shards(load, range(3), on=pool)))(np.ones(3)))\n"
        "pool.shutdown()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout == "[6. 6. 6.]\n", done.stderr
