#!/usr/bin/env python3
"""Wrong options of weft bench transfer, on the command line and in TOML, each with what would be right."""
import pathlib
import tempfile
import unittest

import bench
import tool


class Options(bench.BenchTest):
    def test_wrong_kind_or_range(self):
        self.wrong(2, '"many" is not a whole number', "-num_iter", "many")
        self.wrong(2, "-5 is out of range; want 1 to", "--num_iter=-5")
        self.wrong(2, "0 is out of range", "--num_threads", 0)
        self.wrong(2, "did you mean WRITE?", "--op_type", "write")
        self.wrong(2, "did you mean pairwise?", "-scheme", "pairwize")
        self.wrong(2, "did you mean --max-block-size?", "-max_blok_size", 4096)
        self.wrong(2, "is neither yes nor no", "--check_consistency=perhaps")
        self.wrong(2, "--start_block_size 8192 is more than --max_block_size 4096", "--start_block_size", 8192,
                   "--max_block_size", 4096)
        self.wrong(2, "--start_batch_size 4 is more than", "--start_batch_size", 4)

    def test_a_block_larger_than_the_buffer(self):
        self.wrong(2, "the largest block is 1048576", "--total_buffer_size", 1 << 20)
        self.wrong(2, "the largest block is 131072", "--total_buffer_size", 1 << 20, "--pipeline_depth", 8)

    def test_sizes_that_cannot_be_doubled(self):
        for option in ("--start_block_size", "--max_block_size", "--total_buffer_size"):
            self.wrong(2, f"{1 << 63} is out of range", "--total_buffer_size", 1 << 50, option, 1 << 63)

    def test_numbers_that_do_not_fit_the_scheme(self):
        self.wrong(2, "makes 3 workers", "--num_initiator_dev", 2)
        self.wrong(2, "has one target", "--scheme", "manytoone", "--num_target_dev", 2)
        self.wrong(2, "has one initiator", "--scheme", "onetomany", "--num_initiator_dev", 2)
        self.wrong(2, "the nearest to 3 are 2 and 4", "--scheme", "tp", "--num_initiator_dev", 3, "--num_target_dev", 2)
        self.wrong(2, "want at most 2", *bench.SMALL, "--local_workers", 3)

    def test_back_ends(self):
        self.wrong(2, "there is no back end of that name; want one or", "--backend", "NONE")
        self.wrong(2, "do not reach the same kind of memory", "--backend", "SHM,POSIX")
        self.wrong(2, "SHM is named twice", "--backend", "SHM,UCX,shm")
        self.wrong(2, "--json and --html are both", *bench.SMALL, "--json", "out", "--html", "out")
        self.wrong(3, "needs a vendor's library", "--backend", "GUSLI")
        for name in ("gpunetio_device_list", "azure_blob_account_url", "infinia_config_file", "gusli_config_file"):
            self.wrong(3, f"--{name} is for the back end", f"--{name}", "x")
        self.wrong(3, "nvshmem", "--worker_type", "nvshmem")
        self.wrong(3, "--use_device_api", "--use_device_api")
        self.wrong(3, "S3 client", "--obj_accelerated_enable")
        self.wrong(2, "--transport shm,ofi: want the name of one transport", *bench.SMALL, "--transport", "shm,ofi")
        self.wrong(2, "--transport carrier: there is no transport carrier", *bench.SMALL, "--transport", "carrier")
        self.wrong(2, "--obj_bucket_name NAME", "--backend", "OBJ")
        self.wrong(2, "places in files", *bench.SMALL, "--randomize_location_mode", "blockaligned")

    def test_memory(self):
        self.wrong(2, "--enable_vmm is about GPU memory", *bench.SMALL, "--enable_vmm")
        self.wrong(2, "--use_hugepages is about host memory", "--use_hugepages", "--initiator_seg_type", "VRAM",
                   "--target_seg_type", "VRAM")
        self.wrong(2, "--reregister_mem", *bench.SMALL, "--reregister_mem", "--pipeline_depth", 2)

    def test_gpu_memory_without_a_gpu(self):
        said = self.wrong(3, "needs a GPU", *bench.SMALL, "--initiator_seg_type", "VRAM",
                          WEFT_CUDA_PLUGIN="/nonexistent/libweft_cuda.so.0")
        self.assertNotIn("core dumped", said)

    def test_unknown_devices(self):
        said = self.wrong(2, 'this host has no "mlx5_77"', *bench.SMALL, "--device_list", "lo,mlx5_77")
        self.assertRegex(said, r"it has .*\blo\b")

    def test_empty_values_of_nixlbench_mean_not_given(self):
        names = ("obj_access_key", "obj_secret_key", "obj_ca_bundle", "filenames", "config_file", "gusli_config_file",
                 "azure_blob_connection_string", "etcd_endpoints", "device_list", "benchmark_group")
        empty = [f"--{name}=" for name in names]
        said = bench.settings(self.bench(*bench.SMALL, *empty, "-filepath", "", "--nocheck_consistency",
                                         "-recreate_xfer=T"))
        self.assertEqual([said[name] for name in (*names[:4], "filepath")], [""] * 5)
        self.assertEqual([said[name] for name in ("device_list", "benchmark_group")], ["all", "default"])
        self.assertEqual([said[name] for name in ("check_consistency", "recreate_xfer")], ["0", "1"])

    def test_empty_values_of_weft_and_of_numbers_are_wrong(self):
        for name in ("json", "store", "transport", "token", "num_iter", "scheme", "check_consistency"):
            self.wrong(2, f"--{name}: is empty", *bench.SMALL, f"--{name}=")

    def test_a_store_that_is_not_there(self):
        port = bench.free_port()
        self.wrong(3, f"http://127.0.0.1:{port}", *bench.SMALL, "--etcd_endpoints", f"http://127.0.0.1:{port}",
                   "--startup_timeout", 1)


class Toml(bench.BenchTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "bench.toml")
        self.path.write_text("")
        if "no tomlplusplus" in tool.weft("bench", "transfer", "--config_file", self.path, "--backend", "NONE").stderr:
            self.skipTest("this build has no tomlplusplus")

    def write(self, text):
        self.path.write_text(text)
        return ("--config_file", self.path)

    def test_options_and_what_wins(self):
        given = self.write('# sizes\nbackend = "SHM"\nstart_block_size = 4096\nmax-block-size = 16384\nnum_iter = 48\n'
                           'warmup_iter = 16\ncheck_consistency = true\nscheme = "pairwise"\n')
        said = bench.settings(self.bench(*given, "--max_block_size", 4096))
        self.assertEqual({name: said[name] for name in ("backend", "max_block_size", "num_iter", "check_consistency")},
                         {"backend": "SHM", "max_block_size": "4096", "num_iter": "48", "check_consistency": "1"})

    def test_an_empty_text_means_not_given(self):
        given = self.write('backend = "SHM"\nfilepath = ""\nobj_access_key = ""\ndevice_list = ""\n')
        said = bench.settings(self.bench(*bench.SMALL[2:], *given, "--backend="))
        self.assertEqual([said[name] for name in ("backend", "filepath", "obj_access_key", "device_list")],
                         ["SHM", "", "", "all"])
        self.wrong(2, "line 1: json: is empty", *self.write('json = ""\n'))

    def test_what_is_wrong_has_its_line(self):
        for text, says in (('backend = "SHM"\nmax_blok_size = 1\n', "line 2: max_blok_size is not an option; did you"),
                           ('backend = "SHM"\nnum_iter = "many"\n', "line 2: num_iter is a string; want a whole"),
                           ("\n\nnum_iter = 1.5\n", "line 3: num_iter is a number with a point; want a whole number"),
                           ("num_iter = true\n", "line 1: num_iter is a boolean; want a whole number"),
                           ("check_consistency = 1\n", "line 1: check_consistency is a whole number; want true or"),
                           ("backend = [\"SHM\"]\n", "line 1: backend is a list; want a string"),
                           ("[global]\nnum_iter = 1\n", "line 1: [global] is a table; write options at the top"),
                           ("num_iter = 0\n", "line 1: num_iter: 0 is out of range"),
                           ('scheme = "all"\n', 'line 1: scheme: "all" is none of'),
                           ("num_iter = 16\n\nnum-iter = 32\n",
                            "line 3: num-iter repeats num_iter of line 1: want it once"),
                           ('config_file = "other.toml"\n', "line 1: a file cannot name a further file"),
                           ("num_iter = \n", ":1:12: it is not TOML")):
            self.wrong(2, says, *self.write(text))
        self.wrong(3, "config_file: cannot read", "--config_file", self.path.with_suffix(".none"))

    def test_secrets_of_the_file_are_not_shown(self):
        said = self.bench(*bench.SMALL, *self.write('obj_secret_key = "THESECRET"\n'))
        self.assertNotIn("THESECRET", said)


if __name__ == "__main__":
    unittest.main()
