// SPDX-License-Identifier: Apache-2.0
#include "domain/slurm/submission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep::slurm {
namespace {

/// "123" or "123;cluster", as --parsable prints it.
std::string job_id_in(std::string_view out) {
  const std::string_view line = out.substr(0, out.find('\n'));
  const std::string_view id = line.substr(0, line.find(';'));
  const bool number = !id.empty() && id.size() < 20 &&
                      id.find_first_not_of("0123456789") == std::string_view::npos;
  return number ? std::string(id) : "";
}

std::string first_words(std::string_view err) {
  std::string text;
  for (const char c : err.substr(0, 400))
    text += c == '\n' ? ' ' : c;
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return text.empty() ? "no message" : text;
}

bool holds_any(std::string_view text, const auto& needles) {
  return std::any_of(needles.begin(), needles.end(), [&](std::string_view needle) {
    return text.find(needle) != std::string_view::npos;
  });
}

/// The answer was lost, not the question: what Slurm says of its connections, whether they
/// failed before the question or after it.
constexpr std::array<std::string_view, 17> lost_answers{"timed out",
                                                        "Unable to contact",
                                                        "Unexpected message",
                                                        "Unexpected missing socket",
                                                        "Zero Bytes",
                                                        "Header lengths are longer",
                                                        "Message send failure",
                                                        "Message receive failure",
                                                        "Transport endpoint",
                                                        "Connection reset",
                                                        "Communication",
                                                        "Connection refused",
                                                        "Broken pipe",
                                                        "No route to host",
                                                        "Network is unreachable",
                                                        "slurm_msg_sendto",
                                                        "slurm_receive_msg"};

/// It may be asked again when other jobs have gone, or later.
constexpr std::array<std::string_view, 9> limits{"AssocMaxSubmitJobLimit",
                                                 "AssocGrpSubmitJobsLimit",
                                                 "QOSMaxSubmitJobPerUserLimit",
                                                 "QOSMaxSubmitJob",
                                                 "QOSGrpSubmitJobsLimit",
                                                 "job submit limit",
                                                 "temporarily unable to accept job",
                                                 "Resource temporarily unavailable",
                                                 "too many requests"};

constexpr std::string_view refused = "Batch job submission failed:";

}  // namespace

std::optional<SchedulerEvent> read_failure(const std::string& token, std::string_view said) {
  if (holds_any(said, lost_answers)) return SubmitUnknown{token, std::string(said)};
  if (holds_any(said, limits)) return SubmitDeferred{token, std::string(said)};
  return std::nullopt;
}

SchedulerEvent read_submission(const std::string& token, int exit_code, std::string_view out,
                               std::string_view err) {
  const std::string id = job_id_in(out);
  // The id is what a job has and nothing else prints, whatever stands beside it.
  if (!id.empty()) return SubmitAccepted{token, id};
  const std::string said = first_words(err);
  if (exit_code <= 0) return SubmitUnknown{token, "sbatch gave no job id: " + said};
  if (holds_any(err, lost_answers)) return SubmitUnknown{token, said};
  if (holds_any(err, limits)) return SubmitDeferred{token, said};
  if (err.find(refused) != std::string_view::npos ||
      err.find("sbatch: error:") != std::string_view::npos ||
      err.find("sbatch: fatal:") != std::string_view::npos ||
      err.find("sbatch: unrecognized option") != std::string_view::npos) {
    return SubmitRefused{token, said};
  }
  return SubmitUnknown{token, said};
}

std::vector<std::string> submission_command(const AllocationRequest& request) {
  std::vector<std::string> command{"sbatch",
                                   "--parsable",
                                   "--no-requeue",
                                   "--no-kill",
                                   "--propagate=NONE",
                                   "--export=ALL",
                                   "--chdir=" + request.dir.string(),
                                   "--job-name=" + request.job_name};
  // Slurm does not start what could not end by then.
  if (request.deadline_in_s > 0)
    command.push_back(fmt::format("--deadline=now+{:.0f}seconds", request.deadline_in_s));
  // It can't run before its id is committed; released then.
  if (request.strict) command.emplace_back("--hold");
  command.push_back(request.script.string());
  return command;
}

std::vector<std::string> command_environment(const std::vector<std::string>& own) {
  constexpr std::array<std::string_view, 11> kept{
      "HOME=", "USER=",       "LOGNAME=",    "SHELL=",           "LANG=", "LC_ALL=",
      "TZ=",   "SLURM_CONF=", "KRB5CCNAME=", "XDG_RUNTIME_DIR=", "PATH="};
  std::vector<std::string> clean;
  for (const std::string& entry : own) {
    const bool keep = std::any_of(kept.begin(), kept.end(), [&](std::string_view prefix) {
      return entry.compare(0, prefix.size(), prefix) == 0;
    });
    if (keep) clean.push_back(entry);
  }
  return clean;
}

}  // namespace shardsweep::slurm
