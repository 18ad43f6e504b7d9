// SPDX-License-Identifier: Apache-2.0
// Lines that a cause must take, and lines like them that tell of nothing: noise of a healthy start,
// quotes, other programs' words.
#include "causes/causes.hpp"
#include "causes/failed_log.hpp"
#include "text/entries.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

LogFinding found_in(const std::string& text) {
  CAPTURE(text);
  const auto finding = find_cause(text, {});
  REQUIRE(finding);
  return *finding;
}

}  // namespace

TEST_CASE("general causes judge what had a cause of its own") {
  std::ifstream file(std::string(SHARDSWEEP_SOURCE_DIR) + "/tests/data/cases/causes_alike.yaml");
  const std::string all(std::istreambuf_iterator<char>(file), {});
  for (const Cause& alike : read_entries<Cause>(all)) {
    CAPTURE(alike.name);
    CHECK(match_in(alike.sample, alike.pattern));
    const LogFinding finding = found_in(alike.sample);
    CHECK(finding.outcome == alike.outcome);
    CHECK(finding.whose == alike.whose);
    CHECK(finding.strength == alike.weight);
    CHECK(finding.remedy == alike.remedy);
  }
}

TEST_CASE("what quotes a line or stands below it tells of nothing else") {
  // Containers quote warnings of others, and threads quote logs.
  CHECK(found_in("FATAL:   while extracting a.sif: WARNING: no group file\n").rule ==
      "container-fatal");
  CHECK(found_in("> ValueError: tp 3 divides nothing\n").rule == "refused-value-error");
  CHECK(found_in(">```ValueError: tp 3 divides nothing```\n").rule == "refused-value-error");
  CHECK_FALSE(find_cause(">\n```\n>```\n", {}));
  CHECK(found_in("ValueError('tp 3 divides nothing')\n").rule == "refused-value-error");
  // Python prints the source of a warning.
  CHECK_FALSE(find_cause("x.py:1: UserWarning: no JPEG\n  warn(f\"Failed to load {e}\")\n", {}));
  // An error without words is told below it.
  CHECK(found_in("ValueError:\nYou chose an odd mesh\n").line == "You chose an odd mesh");
  CHECK(found_in("ValueError:\nYou chose an invalid mesh\n").line == "You chose an invalid mesh");
  // Another program's line is none, nor is one behind a traceback.
  const std::string srun = "srun: error: n3: task 5: Exited with exit code 1\n";
  CHECK(found_in("ValueError:\n" + srun).line == "ValueError:");
  CHECK(found_in("ValueError:\nFailures:\nan odd mesh\n").line == "ValueError:");
  const auto within = [](const std::string& function, const std::string& error) {
    return found_in("Traceback (most recent call last):\n  File \"t.py\", line 1, in " + function +
        "\n    assert ok\n" + error + "\n")
        .outcome;
  };
  CHECK(within("main", "AssertionError") == Outcome::rejected);
  CHECK(within("forward", "AssertionError") == Outcome::crashed);
  CHECK(within("forward", "AssertionError: tp 3 divides nothing") == Outcome::rejected);
  CHECK(within("forward", "ValueError('mismatch')") == Outcome::rejected);
  CHECK(within("main", "RuntimeError: timed out, world size 16") == Outcome::comm_error);
  CHECK(within("main", "RuntimeError: type conversion: a mismatch") == Outcome::crashed);
  // What counts steps, or cleans data, is neither a step nor the end.
  for (const char* function :
      {"num_training_steps", "get_num_training_steps", "train_dataloader_for_loop"})
    CHECK(within(function, "AssertionError") == Outcome::rejected);
  CHECK(within("clean_duplicate_rows", "ValueError: 3 rows") == Outcome::rejected);
  for (const char* function : {"training_steps_per_epoch", "train_loop_of", "optimizer_steps"})
    CHECK(within(function, "AssertionError") == Outcome::rejected);
  for (const char* function : {"forward_step", "after_train_epoch", "train_step"})
    CHECK(within(function, "AssertionError") == Outcome::crashed);
}

TEST_CASE("what only looks like a failure is none") {
  // Printed classes, figures, and what healthy programs print when they start.
  for (const std::string line : {"torch.Size([4, 2048]) torch.Size([4, 2048])",
           "collections.OrderedDict([('a', 1)", "nn.Linear(4096, 1024)", "foo.Bar('x')",
           "eval: perplexity on code 4.31, mean logprob -7.25", "perplexity on code 137",
           "steps left: 5, exit code -75", "[drm] amdgpu kernel modesetting enabled, 0 errors",
           "amdgpu: SMU error recovered", "Got completion of 7 prompts",
           "[INFO] MLflow tracking is not configured; metrics stay local",
           "/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory",
           "set_mempolicy: Operation not permitted",
           "bash: /etc/profile.d/modules.sh: No such file or directory",
           "cat: /sys/class/infiniband/mlx5_0/device: No such file or directory",
           "n35:rank0.train: Failed to modify UD QP to INIT on mlx5_bond_0: Invalid argument",
           "E] Unable to register cuFFT factory: one has already been registered",
           "Step 1 | Loss: -0.01 | Mismatch KL: 0.0012 | invalid: 3", "epoch 2, loss 0.3, killed 0",
           "Error From n3: socket cannot be initialized (97 - Address family not supported)",
           "/usr/bin/ld: cannot find -laio: No such file or directory",
           "collect2: error: ld returned 1 exit status",
           "systemd[1]: Started NVIDIA fabric manager service.",
           "2024-01-01 10:00:00.1: W tensorflow/dso_loader.cc:64] Could not load dynamic library",
           "[ERROR] /usr/bin/ld.so: object a.so cannot be preloaded: ignored.",
           "mkdir: cannot create directory 'run': File exists", "validation: 128 passed, 0 failed",
           "id: cannot find name for user ID 30001",
           "SUCCESS Step 3 | Time: 5.2s | Mismatch KL: 0.1", "step 5 | loss: nan | invalid: 3",
           "[Epoch 3] step 5 loss 2.0 invalid: 3", "step 5 | val error: 0.12 | loss 0.3",
           "ln: failed to create symbolic link 'a': File exists",
           "systemd[2314]: train.service: Main process exited, code=exited, status=0/SUCCESS",
           "systemd[1]: motd.service: Main process exited, code=exited, status=1/FAILURE",
           "systemd[1]: user@1000.service: Main process exited, code=killed, status=15/TERM",
           "systemd[1]: munge.service: Main process exited, code=killed, status=15/TERM",
           "systemd[1]: apt-daily.service: Main process exited, code=exited, status=100/n/a",
           "mount: /dev/nvme0n1 mounted on /scratch.", "mount.nfs: timeout set for Sat May  4",
           "8 nodes are available: n1, n2", "EDAC MC0: 0 CE 0 UE on DIMM_A1",
           "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
           "XFS (dm-3): Ending clean mount", "tests: 128 PASSED, 0 FAILED", "unexpected keys: []",
           "checkpoint /data/x does not exist, training from scratch",
           "flash_attn not found, using sdpa", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0",
           "NET/OFI Selected Provider is efa (found 4 nics)", "OOM protection enabled",
           "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver", "EXIT CODE: 0",
           "Fabric Manager is configured. 0 errors", "Unable to find image 'x:1' locally",
           "Normal  Pulling  12s  kubelet  Pulling image x", "sending signal 9 ways",
           "Internal errors are reported to stderr", "signal handlers installed (signal 15)",
           "UCX  DIAG  Remote access on mlx5_2:1/IB (synd 0x13)",
           "UCX  DEBUG Transport retry count exceeded on mlx5_2:1/IB (synd 0x15)"}) {
    CAPTURE(line);
    CHECK_FALSE(find_cause(line, {}));
  }
  // What fails on the way decides nothing against what ended the run, in whatever order.
  const std::string refused = "[c10d] The server socket has failed: Connection refused\n";
  const std::string alone = found_in(refused).rule;
  for (const std::string line : {"MLflow tracking is not configured",
           "Unable to locate the sample config", "Health check failed: node n3 answers no ping",
           "cp: /data/extra: No such file or directory", "nice: set: Operation not permitted"}) {
    CHECK(found_in(line + "\n" + refused).rule == alone);
    CHECK(found_in(refused + line + "\n").rule == alone);
  }
  // An error is no weaker than one that nobody knows, whatever errno's words it ends with.
  for (const std::string error : {"RuntimeError: can not open x: No such file or directory",
           "RuntimeError: set_mempolicy: Operation not permitted",
           "BlockingIOError: [Errno 11] Resource temporarily unavailable"})
    CHECK(found_in(error + "\n[rank1]: " + refused).line == error);
}

TEST_CASE("whoever speaks tells whose fault it is") {
  const std::map<std::string, Whose> speakers{
      {"docker: Cannot connect to the Docker daemon at unix:///run/docker.sock.", Whose::node},
      {"Error: error mounting \"/data\" to rootfs at \"/data\": permission denied", Whose::node},
      {"Failed to pull image \"n1/x\": rpc error: not found", Whose::user},
      {"  Warning  FailedMount  2m  kubelet  MountVolume.SetUp failed", Whose::node},
      {"0/4 nodes are available: 4 Insufficient nvidia.com/gpu.", Whose::user},
      {"mount.nfs4: access denied by server while mounting nas:/home", Whose::node},
      {"bash: /home/u/run.sh: Input/output error", Whose::node},
      {"nvme nvme0: controller is down; will reset: CSTS=0xffffffff", Whose::node},
      {"ssh: connect to host n2 port 22: Connection refused", Whose::network},
      {"kex_exchange_identification: Connection closed by remote host", Whose::network},
      {"u@n2: Permission denied (gssapi-with-mic,publickey).", Whose::user},
      {"nvidia-smi: No devices were found", Whose::node},
      {"INFO: task python:7 blocked for more than 120 seconds.", Whose::node},
      {"slurmstepd: error: Could not open stdout file /x/y: No such file", Whose::user},
      {"ibv_modify_qp failed with errno 110", Whose::network},
      {"ERROR: No matching distribution found for torch==9", Whose::user},
      {"nvcc fatal   : Unsupported gpu architecture 'compute_90'", Whose::program},
      {"slurmd: error: Unable to initialize cgroup plugin: No such file", Whose::node},
      {"slurmstepd-n3: error: task/cgroup: unable to set taskset '0x0'", Whose::node},
      {"ninja: build stopped: subcommand failed.", Whose::program},
      {"HSA_STATUS_ERROR_MEMORY_FAULT: no access to that address", Whose::program},
      {"Command terminated by signal 9", Whose::program},
      {"=   KILLED BY SIGNAL: 11 (Segmentation fault)", Whose::program}};
  for (const auto& [line, whose] : speakers) {
    const LogFinding finding = found_in(line + "\n");
    CHECK(finding.whose == whose);
    CHECK(finding.outcome != Outcome::oom);
  }
  // A rendezvous' helper explains less than the connection that it could not make.
  const std::string ssh = "ssh: connect to host n2 port 22: Connection refused\n";
  CHECK(found_in(ssh + "ORTE was unable to reliably start one or more daemons.\n").whose ==
      Whose::network);
}

TEST_CASE("a long line is quoted by its beginning and by what its cause looks for") {
  const std::string options(300, 'x');
  const std::string line = found_in("subprocess.CalledProcessError: Command '['gcc', '" + options +
      "']' returned non-zero exit status 255.\n")
                               .line;
  CHECK(line.starts_with("subprocess.CalledProcessError: "));
  CHECK(line.ends_with("returned non-zero exit status 255."));
  // One that wraps another's error ends with the reason of that one.
  const std::string wrapped =
      found_in("Error response from daemon: failed to create shim task: runc " + options +
          ": nvidia-container-cli: device error: unknown device\n")
          .line;
  CHECK(wrapped.starts_with("Error response from daemon: failed to create shim task: "));
  CHECK(wrapped.ends_with("device error: unknown device"));
}

TEST_CASE("a level counts if it is the line's own") {
  CHECK(found_in("worker 0 failed\n").rule == "word-of-failure");
  // A train step's line has names of figures, unless a logger says that it is an error.
  CHECK(found_in("[ERROR] diverged: invalid loss 3.5 at step 7\n").rule == "hint-logged");
  CHECK(found_in("[2024-11-02 03:12:44,1] [ERROR] [launch.py:322:sigkill_handler] ['python3', "
                 "'train.py', '--log_level', 'INFO'] exits with return code = -9\n")
            .rule == "ended-killed");
  CHECK(found_in("python3 train.py --log_level INFO: exit code -9\n").rule == "ended-killed");
  CHECK_FALSE(find_cause("2024-11-02 03:12:44 - INFO - worker: exit code -9\n", {}));
}

TEST_CASE("an exit code or status of a signal is known in any words") {
  const std::map<std::string, std::string> ended{
      {"worker 3 ended with exit status 247", "ended-killed"}, {"Exit code: 137", "ended-killed"},
      {"process 12 exited on signal 11", "ended-segmentation"},
      {"task exited with non-zero exit code: -6", "ended-aborted"},
      {"  exitcode  : -7 (pid: 2)", "ended-bus-error"},
      {"RuntimeError: DataLoader worker exited with exit code 139", "ended-segmentation"}};
  for (const auto& [line, rule] : ended) {
    CAPTURE(line);
    CHECK(found_in(line + "\n").rule == rule);
  }
  for (const std::string line :
      {"exit code 0", "steps left: 5, exit code -75", "exit after 137 steps",
          "perplexity on code 137", "code 137 is a status, and no exit", "exit code 1378",
          "collected exit status of worker 137", "Received exit signal at step 9"}) {
    CAPTURE(line);
    CHECK_FALSE(find_cause(line, {}));
  }
}

TEST_CASE("a launcher's exception that tells of a signal follows the error before it") {
  const std::string oom =
      "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n";
  const std::string launcher =
      "Traceback (most recent call last):\n  File \"launch.py\", line 9, in <module>\n"
      "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 134.\n";
  CHECK(found_in(oom + launcher).outcome == Outcome::oom);
  // A job's limit, of which the kernel tells after the process that met it.
  CHECK(found_in("[7.1] python invoked oom-killer: gfp_mask=0x1\n"
                 "[7.2] Memory cgroup out of memory: Killed process 7 (python3)\n")
            .rule == "cgroup-oom-kill");
}

TEST_CASE("an error of glog's level is a hint, whatever its words are") {
  const std::string halt = "E1224 22:35:53.1   26868 core.cc:1331] TC0: all stand still\n";
  CHECK(found_in(halt).strength == Strength::hint);
  CHECK(found_in("[E core.cc:9] rank 3 is gone\n").rule == "hint-logged-by-glog");
  CHECK(found_in(halt + "MemoryError\n").rule == "python-memory");
  for (const std::string line :
      {"E2E latency 5 ms", "E1102", "[E2E] 5 ms", "I1224 22:35:53 a.cc:1] go", "E10 is a number",
          "[Epoch 3] done", "[E 3/10] step 120 loss: 0.31"})
    CHECK_FALSE(find_cause(line, {}));
}

TEST_CASE("what containers and data print while they start is no failure") {
  for (const std::string line : {"NVIDIA Container Runtime version 1.17.5",
           "daemon: response of node n3: ready", "python: oom_score_adj=0, no memory was missed",
           "Reading file gzip://f.json::https://example.com/f.json.gz",
           "peer process n3 connected over a TCP connection",
           "NCCL INFO algorithm/protocol available: Ring/Simple"}) {
    CAPTURE(line);
    CHECK_FALSE(find_cause(line, {}));
  }
}

TEST_CASE("a reason that ends with a colon has its own below it") {
  const std::string lazy =
      "RuntimeError: Failed to import a.b because of the following error:\n"
      "Failed to import c.d because of the following error:\n";
  const std::string symbol = "/lib/e.so: undefined symbol: _ZN3c105ErrorC2\n";
  CHECK(found_in(lazy + symbol).rule == "symbol-undefined");
  CHECK(found_in(lazy + "wandb: synced 3 files\n").rule == "import-failed-lazily");
}

TEST_CASE("authentication and images are judged by whose they are") {
  for (const std::string error :
      {"huggingface_hub.errors.HfHubHTTPError: 401 Client Error: authentication error",
          "wandb.errors.CommError: authentication error"})
    CHECK(found_in(error + "\n").outcome != Outcome::node_failure);
  CHECK(found_in("FATAL:   stat /opt/train.py: no such file or directory\n").whose == Whose::user);
  CHECK_FALSE(find_cause("server: 0 unauthorized requests\n", {}));
  CHECK(found_in("unmunge: error: Expired credential\n").whose == Whose::node);
  // torchrun's table tells more than the error above it.
  CHECK(found_in("a.ChildFailedError:\n[0]:\n  exitcode  : 1 (pid: 7)\n").line ==
      "exitcode  : 1 (pid: 7)");
}

TEST_CASE("a train step's line is told from others that speak of a loss") {
  const std::string refusal = "ValueError: tp 3 divides nothing\n";
  for (const std::string line :
      {"Loading checkpoint epoch-03-loss-0.23.pt", "runs/pretrain-loss-2.31-step-5000/model.pt",
          "{'best_loss': -1, 'epoch': 0}", "Namespace(target_loss=-1, max_steps=100)"})
    CHECK(found_in(line + "\n" + refusal).rule == "refused-value-error");
  for (const std::string line :
      {"step 3 loss: -1.5", "step 3 loss=-12", "{'loss': '-0.5', 'epoch': 1}"})
    CHECK(found_in(line + "\n" + refusal).rule.empty());
  // Words in it are names of figures only if a number stands behind them.
  for (const char* line : {"E1102 03:12:44 train.cc:7] step 12 loss 3.2: training failed",
           "E1102 03:12:44 train.cc:7] step 12 loss 3.2 failed 3", "[E] step 1 loss 3.2 invalid: 3",
           "Error: training failed at step 12, loss 3.2",
           "level=error msg=\"training failed at step 12, loss 3.2\"",
           "step 5 loss 3.2 failed with KeyError: 'labels'",
           "step 5 | loss 3.2 | failed: 3 | KeyError: 'labels'",
           "step 12 | loss 3.2 | grad norm inf, error: overflow, aborting run",
           "step 5 | loss: 2.0 | invalid: 3, worker 7 died"}) {
    CHECK(found_in(line).outcome == Outcome::crashed);
    CHECK(found_in(line + ("\n" + refusal)).rule == "refused-value-error");
  }
  Cause own{.name = "odd-kl", .pattern = "Mismatch KL"};
  own.outcome = Outcome::rejected;
  own.weight = Strength::hint;
  const auto finding = find_cause("step 3 | loss 0.1 | Mismatch KL: 7\n", {&own, 1});
  REQUIRE(finding);
  CHECK(finding->rule == "odd-kl");
}

TEST_CASE("what was survived or is general does not beat what ended the run") {
  const std::string steps = "step 1 loss 3.1\nstep 2 loss 3.0\nstep 3 loss 2.9\n";
  const std::string segfault = "srun: error: n2: task 3: Segmentation fault (core dumped)\n";
  const std::string shape =
      "size mismatch for fc.weight: copying a param with shape torch.Size([81, 4]) from "
      "checkpoint\n";
  CHECK_FALSE(find_cause(shape + steps, {}));
  CHECK(found_in(shape + steps + segfault).rule == "shell-segmentation");
  CHECK(found_in(shape).outcome == Outcome::rejected);
  CHECK(found_in(shape + "torch.distributed.DistNetworkError: the client timed out\n").outcome ==
      Outcome::comm_error);
  CHECK(found_in(shape +
            "[rank1]:[E x.cpp:4] [Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=1)\n")
            .outcome == Outcome::comm_error);
  CHECK_FALSE(find_cause("UCX  DIAG  Remote access on mlx5_2:1/IB (synd 0x13\n" + steps, {}));
  for (const std::string line :
      {"UCX  ERROR Local protection (synd 0x4", "Local protection on mlx5_0:1/IB (synd 0x4"})
    CHECK(found_in(line + "\n" + steps + segfault).rule == "shell-segmentation");
  // Memory that NCCL lacks is told once, whoever prints a step behind it.
  CHECK(found_in("NCCL WARN Cuda failure 2 'out of memory'\n" + steps).outcome == Outcome::oom);
  // A linker's word may be of a probe.
  CHECK(found_in("ld: cannot find -lcublas\nsrun: error: n3: task 5: Exited with exit code 1\n")
            .rule == "launcher-srun");
  CHECK(found_in("ld: cannot find -lcublas\n").remedy ==
      "name the folder of that library in "
      "LIBRARY_PATH");
  for (const char* list : {"failed ranks: 3, 7, 0 failed", "[ERROR] key x: ignored by the parser"})
    CHECK(find_cause(list, {}));
}

TEST_CASE("words of a refusal, of a node and of memory are held against what they tell of") {
  for (const std::string error :
      {"lost rank 3, world size 7 is left", "store barrier: 15/16 workers joined (world size 16)",
          "world size changed from 16 to 15", "CUDA error: device-side assert, world size 8",
          "NCCL version mismatch between rank 0 and rank 3",
          "flash-attn version 2: kernel mismatch on node n3"})
    CHECK(found_in("RuntimeError: " + error + "\n").outcome == Outcome::crashed);
  for (const std::string error :
      {"RuntimeError: CUDA driver version 11040 is incompatible with CUDA "
       "runtime",
          "pynvml.nvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version "
          "mismatch.",
          "munge: Error: Failed to access \"/run/munge/munge.socket.2\": Permission denied",
          "unmunge: Error: Invalid credential", "munged: Error: Keyfile is insecure",
          "srun: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No "
          "such file or directory",
          "slurmd: error: Munge decode failed: Invalid credential",
          "slurmstepd: error: pyxis: mkdir: cannot create directory '/run/enroot/u': File exists",
          "systemd[1]: nvidia-persistenced.service: Main process exited, code=dumped, "
          "status=6/ABRT",
          "systemd[1]: slurmd.service: Main process exited, code=killed, status=9/KILL",
          "salloc: error: Node failure on n3", "slurmctld: error: Node failure on n3",
          "File.lua:210: write error: wrote 3 blocks instead of 7 at THDiskFile.c:356"}) {
    const LogFinding finding = found_in(error + "\n");
    CHECK(finding.outcome == Outcome::node_failure);
    CHECK(finding.whose == Whose::node);
  }
  for (const char* other : {"job: error: Node failure on purpose", "write error: wrote 3 bytes"})
    CHECK(found_in(other).outcome == Outcome::crashed);
  // A file that exists already is noise only of who makes folders and links.
  CHECK(
      found_in("NCCL WARN Call to shm_open failed : File exists\n").outcome == Outcome::comm_error);
  CHECK(found_in("[ERROR] unable to open shared memory object </torch_2847_1> in read-write mode: "
                 "File exists (17)\n")
            .whose == Whose::user);
  // One line may tell of a family of addresses and of what failed behind it.
  CHECK(
      found_in("[c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address "
               "family not supported by protocol). The server socket has failed to bind to "
               "0.0.0.0:29500 (errno: 98 - Address already in use).\n")
          .rule == "address-in-use");
  CHECK(found_in("[n7:4113:0:4113] ib_mlx5_log.c:143  Transport retry count exceeded on "
                 "mlx5_2:1/IB\n")
            .outcome == Outcome::comm_error);
  // The memory of NVLink's switches is neither the layout's nor the node's.
  const LogFinding nvls = found_in(
      "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error\n"
      "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to bind NVLink "
      "SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 2 'out of memory'.\n");
  CHECK(nvls.outcome == Outcome::crashed);
  CHECK(nvls.remedy == "set NCCL_NVLS_ENABLE=0");
  for (const std::string error : {"torch.OutOfMemoryError",
           "torch.cuda.OutOfMemoryError: Allocation on device 5 would exceed allowed memory.",
           "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 12 bytes"})
    CHECK(found_in(error + "\n").remedy.empty());
  CHECK(found_in("MemoryError\n").remedy.starts_with("the host memory"));
  CHECK(found_in("FATAL: \"python\": executable file not found in $PATH\n").rule ==
      "container-no-program");
  CHECK(found_in("*** stack smashing detected ***: python\n").rule == "hint-stack");
}

TEST_CASE("a program's own word for its end goes before what tools around it could not do") {
  const std::string own = "[trainer] fatal: 33 layers over 4 stages";
  for (const std::string around :
      {"cat: /etc/nccl.conf: No such file or directory", "umount: /mnt/x: Device or resource busy",
          "n1:311:480 [0] graph/topo.cc:112 NCCL WARN The topology is unusual",
          "Failed to connect to the tracker at http://n1:5000",
          "[2024-11-02 10:00:00] ERROR tracker: no answer", "[proxy] could not reach the hub",
          "frame #3: gloo::transport::tcp::Pair::close() + 0x1b",
          "slurmstepd: error: task_p_pre_launch: Using sched_affinity for tasks",
          "fatal: not a git repository (or any of the parent directories): .git"})
    CHECK(found_in(around + "\n" + own + "\n").line == own);
  CHECK(found_in("[trainer] error: an odd mesh\n").outcome == Outcome::crashed);
  // What is fatal is not survived, whatever the program used.
  CHECK(found_in(own + ", using 2 chunks\n").line == own + ", using 2 chunks");
  // The node's daemons speak of their node.
  CHECK(found_in("slurmd: fatal: plugin_init failed\n").whose == Whose::node);
}

TEST_CASE("a node is accused by its own hardware, driver or daemon alone") {
  for (const std::string line :
      {"time=\"2024-11-02\" level=info msg=\"config: /usr/bin/nvidia-container-runtime\"",
          "s3fs: Failed to mount bucket a, using b", "umount: /mnt/x: Device or resource busy",
          "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
          "tracker: Error: unknown error", "because of its age the bucket failed to mount",
          "nvidia-smi: no healthy devices present in MIG mode",
          "slurmstepd: error: Unable to get current working directory: No such file or directory",
          "pyxis:     [ERROR] URL https://n1/v2/x/manifests/9 returned error code: 404 Not "
          "Found"}) {
    const auto finding = find_cause(line + "\n[trainer] error: an odd mesh\n", {});
    CAPTURE(line);
    CHECK((finding && finding->outcome != Outcome::node_failure));
  }
  const std::string step = "step: 3 loss: 2.1\n";
  for (const std::string survived : {"[1.2] NVRM: Xid (PCI:0000:07:00): 63, Row remapping recorded",
           "E cuda_driver.cc:8] failed to allocate 60.00GiB from device: CUDA_ERROR_OUT_OF_MEMORY",
           "[data] hugepage alloc failed, using 4 KiB pages",
           "[s3] GET index returned error code: 404, the folder is new",
           "Ninja is required to load C++ extensions; trying without"})
    CHECK_FALSE(find_cause(survived + "\n" + step + step, {}));
  // A server that is waited for explains less than how the program ended.
  CHECK(found_in("nfs: server n9 not responding, still trying\n"
                 "srun: error: n2: task 3: Segmentation fault (core dumped)\n")
            .outcome == Outcome::crashed);
  CHECK(found_in("Message: Pod was rejected: no healthy devices present\n").whose == Whose::device);
}

TEST_CASE("an error that points at another one is told by that one") {
  // A hub out of reach is no fault of the network between ranks.
  for (const std::string error : {"ConnectionError(\"Couldn't reach 'a/b' on the Hub\")",
           "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='n1'): Read timed out."})
    CHECK(found_in(error + "\n").outcome == Outcome::crashed);
  CHECK(found_in(
      "OSError: [Errno 5] Input/output error: 'a.npy'\nTraceback (most recent call last):\n"
      "  File \"t.py\", line 9, in next\nRuntimeError: One or more background workers "
      "are no longer alive. See above for the actual error\n")
            .line.starts_with("OSError"));
  // What is left when a program removes its files on NFS ends nothing.
  const std::string removed =
      "Traceback (most recent call last):\n  File \"shutil.py\", line 681, in _rmtree\n"
      "OSError: [Errno 16] Device or resource busy: '.nfs00000000068d'\n";
  CHECK_FALSE(find_cause(removed, {}));
  CHECK(
      found_in("[rank0]: Traceback (most recent call last):\n[rank0]:   File \"t.py\", line 9, in "
               "f\n[rank0]: RuntimeError: the table is too short\n" +
          removed)
          .line == "RuntimeError: the table is too short");
  CHECK(
      found_in("The actor is dead because its worker process has died. Worker exit type: "
               "SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an "
               "exit code None. The worker may have exceeded K8s pod memory limits.\n")
          .line.ends_with("K8s pod memory limits."));
}

TEST_CASE("a frame's function is known by its whole name or by how it begins") {
  const auto ends_in = [](const std::string& function) {
    return found_in(
        "Traceback (most recent call last):\n  File \"t.py\", line 1, in main\n"
        "    run()\nValueError: tp 3 divides nothing\n\nDuring handling of the above "
        "exception, another exception occurred:\n\nTraceback (most recent call "
        "last):\n  File \"t.py\", line 9, in main\n    end()\n  File \"t.py\", line 1, "
        "in " +
        function + "\n    go()\nRuntimeError: odd\n")
        .line;
  };
  for (const char* function : {"_shutdown_workers", "cleanup_distributed", "_cleanup_all",
           "close_all", "terminate_processes", "_teardown_workers"})
    CHECK(ends_in(function) == "ValueError: tp 3 divides nothing");
  CHECK(ends_in("close_enough") == "RuntimeError: odd");
  const auto within = [](const std::string& function) {
    return found_in("Traceback (most recent call last):\n  File \"t.py\", line 1, in " + function +
        "\n    assert ok\nAssertionError\n")
        .outcome;
  };
  for (const char* function :
      {"train_step_amp", "training_step_amp", "optimizer_step_amp", "on_train_epoch_end"})
    CHECK(within(function) == Outcome::crashed);
  for (const char* function : {"on_train_epoch_ended", "on_train_begin"})
    CHECK(within(function) == Outcome::rejected);
}
