// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/options.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep::slurm;

TEST_CASE("options are read from what sbatch's help lists") {
  // Lines of Slurm 22.05, and of pyxis below them.
  const auto names = parse_options(
      "Usage: sbatch [OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]\n\n"
      "Parallel run options:\n"
      "  -A, --account=name          charge job to specified account\n"
      "      --bb=<spec>             burst buffer specifications\n"
      "      --container             Path to OCI container bundle\n"
      "      --deadline=time         remove the job if no ending possible before\n"
      "                              this deadline (start > (deadline - time[-min]))\n"
      "      --nice[=value]          decrease scheduling priority by value\n"
      "      --switches=max-switches{@max-time-to-wait}\n"
      "      --exclusive[=user]      allocate nodes in exclusive mode when\n"
      "      --exclusive[=mcs]       allocate nodes in exclusive mode when\n"
      "      --mem-per-cpu=MB        maximum amount of real memory per allocated\n"
      "                              --mem >= --mem-per-cpu if --mem is specified.\n"
      "  -B  --extra-node-info=S[:C[:T]]  combine request of sockets per node,\n\n"
      "Options provided by plugins:\n"
      "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n");
  CHECK(names ==
      std::vector<std::string>{"account", "bb", "container", "deadline", "nice", "switches",
          "exclusive", "mem-per-cpu", "mem", "extra-node-info", "container-image"});
  CHECK(parse_options("").empty());
}

TEST_CASE("of an option that it lacks, sbatch says so before it does anything") {
  CHECK(option_question("hint") == std::vector<std::string>{"sbatch", "--hint=1", "--version"});
  CHECK(
      lacks_option("sbatch: unrecognized option '--segment=1'\n"
                   "Try \"sbatch --help\" for more information\n"));
  CHECK(
      lacks_option("sbatch: option '--ac=1' is ambiguous; possibilities: '--account' "
                   "'--acctg-freq'\n"));
  CHECK_FALSE(lacks_option(""));
  CHECK_FALSE(lacks_option("sbatch: error: Invalid --kill-on-invalid-dep specification\n"));
  CHECK_FALSE(lacks_option("sbatch: option '--contiguous' doesn't allow an argument\n"));
}
