// SPDX-License-Identifier: Apache-2.0
// Is there a Slurm, and does it answer?
#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>

namespace shardsweep {

Result<void> probe_slurm() {
  constexpr std::chrono::seconds patience{10};
  if (find_on_path("sbatch").empty()) {
    return fault(FaultKind::unavailable, "sbatch is not on PATH");
  }
  if (find_on_path("sinfo").empty()) {
    return fault(FaultKind::unavailable, "sbatch is on PATH, but sinfo is not");
  }
  const auto answer = run_command({"sinfo", "--noheader", "--format=%P"}, {.deadline = patience});
  if (!answer) return fault(answer.error().kind, "Slurm does not answer: " + answer.error().what);
  // Slurm's clients without a slurm.conf ask the network for one, and print four lines about that.
  if (answer->err.find("Could not establish a configuration source") != std::string::npos ||
      answer->err.find("resolve_ctls_from_dns_srv") != std::string::npos) {
    return fault(FaultKind::unavailable,
        "Slurm is installed here, but no cluster is configured: sinfo finds no slurm.conf");
  }
  if (answer->exit_code != 0) {
    const std::string said = answer->err.substr(0, answer->err.find('\n'));
    return fault(FaultKind::unavailable, "Slurm does not answer: sinfo ended with {}: {}",
        answer->exit_code, said.empty() ? "no message" : said);
  }
  return {};
}

}  // namespace shardsweep
