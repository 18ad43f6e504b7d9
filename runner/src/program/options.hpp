// SPDX-License-Identifier: Apache-2.0
// The command line as a value. Flags are a contract: templates, tests and users write them.
#pragma once

#include "base/error.hpp"
#include "parallel/layout.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardbench {

enum class Command { run, help, version, capabilities };
/// The all-reduce over all ranks that tells how fast the network is: before training, or alone.
enum class NetworkProbe { off, first, alone };

struct Options {
  Command command = Command::run;
  Layout layout;
  std::string model_name;
  ModelShape model;
  std::string profile = "own";
  std::optional<bool> tied;  // option as given; empty: as in the named model
  Dtype dtype = Dtype::fp32;
  std::string device = "cpu";
  std::string comm;  // empty: what the device uses
  bool nccl_blocking = true;
  bool nccl_register = false;
  i64 warmup = 2;
  i64 steps = 5;
  u64 seed = 1;
  std::optional<i64> memory_limit_bytes;
  std::optional<double> peak_flops;  // peak per rank, dense, of the dtype; without it there is no
                                     // MFU
  std::optional<double> give_up_above_ms;  // a train step; none: it runs all of them
  std::string records;                     // empty: no records
  std::string rendezvous;
  std::string run_id;
  std::string recorder;
  std::string read_recorder;
  std::string fault;
  bool microbench = false;
  NetworkProbe network_probe = NetworkProbe::off;
  std::map<std::string, double> deadlines_s = {
      // Seconds without progress: the end of the phase, or of a train step; comm: of one wait.
      {"start", 60}, {"rendezvous", 120}, {"init", 600}, {"warmup", 1800}, {"train", 1800},
      {"teardown", 120}, {"comm", 600}};
  i64 rank = 0;
  i64 world_size = 1;
  i64 local_rank = 0;
  std::string defining_flags;  // all flags but those that differ from rank to rank
};

struct ParsedOptions {
  Options options;
  std::optional<Error> error;
};

/// `arguments` without the program's name. `environment` looks a variable up (null: not set):
/// RANK, WORLD_SIZE, LOCAL_RANK or SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID stand in for
/// flags.
using Environment = const char* (*)(const char* name);
ParsedOptions parse_options(
    const std::vector<std::string>& arguments, Environment environment, Options defaults = {});

/// "256MiB", "1GB", "4096"; nothing for what is no number of bytes.
std::optional<i64> parse_bytes(const std::string& text);

std::string help_text();

}  // namespace shardbench
