// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/submission.hpp"

#include "slurm/words/array.hpp"
#include "text/characters.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep::slurm {
namespace {

/// "123" or "123;cluster", as --parsable prints it.
std::string job_id_in(std::string_view out) {
  const std::string_view line = out.substr(0, out.find('\n'));
  const std::string_view id = line.substr(0, line.find(';'));
  const bool number =
      !id.empty() && id.size() < 20 && id.find_first_not_of("0123456789") == std::string_view::npos;
  return number ? std::string(id) : "";
}

bool holds_any(std::string_view text, const auto& needles) {
  return std::any_of(needles.begin(), needles.end(),
      [&](std::string_view needle) { return text.find(needle) != std::string_view::npos; });
}

/// The answer was lost, not the question: what Slurm says of its connections, whether they
/// failed before the question or after it.
constexpr std::array<std::string_view, 17> lost_answers{"timed out", "Unable to contact",
    "Unexpected message", "Unexpected missing socket", "Zero Bytes", "Header lengths are longer",
    "Message send failure", "Message receive failure", "Transport endpoint", "Connection reset",
    "Communication", "Connection refused", "Broken pipe", "No route to host",
    "Network is unreachable", "slurm_msg_sendto", "slurm_receive_msg"};

/// Words for a limit that passes when other jobs have gone, or later. Each limit on submitted jobs
/// has "SubmitJob" in its name: AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, …
constexpr std::array<std::string_view, 4> limits{"SubmitJob", "temporarily unable to accept job",
    "Resource temporarily unavailable", "too many requests"};

/// The job names or needs nodes that can't be had.
constexpr std::array<std::string_view, 6> node_shortages{"node configuration is not available",
    "ode count specification invalid", "nvalid node name", "odes required for job are",
    "ore processors requested than permitted", "equired node not available"};

/// Slurm's one text for every limit of an account or QOS, whether it passes or not.
constexpr std::string_view any_limit = "job submit limit";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// "QOSMaxWallDurationPerJobLimit": with its name a limit on submitted jobs would be known.
bool names_limit(std::string_view text) {
  while (!text.empty()) {
    const auto begin = std::find_if(text.begin(), text.end(), is_word);
    const auto end = std::find_if_not(begin, text.end(), is_word);
    const std::string_view word(begin, end);
    if ((word.starts_with("QOS") || word.starts_with("Assoc")) && word.ends_with("Limit"))
      return true;
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
  }
  return false;
}

std::optional<SchedulerEvent> read_limit(
    const std::string& token, std::string_view text, const std::string& said) {
  if (holds_any(text, limits)) return SubmitDeferred{token, said};
  const bool open = text.find(any_limit) != std::string_view::npos && !names_limit(text);
  if (open) return SubmitDeferred{token, said, false};
  return std::nullopt;
}

constexpr std::string_view refused = "Batch job submission failed:";

std::vector<std::string> common_words(const AllocationRequest& request) {
  std::vector<std::string> command{
      "sbatch", "--parsable", "--no-requeue", "--no-kill", "--propagate=NONE", "--export=ALL"};
  // Slurm does not start what could not end by then.
  if (request.deadline_in_s > 0)
    command.push_back(fmt::format("--deadline=now+{:.0f}seconds", request.deadline_in_s));
  // Hold the job until its id is committed, then release it.
  if (request.strict) command.emplace_back("--hold");
  return command;
}

}  // namespace

bool lacks_nodes(std::string_view said) {
  return holds_any(said, node_shortages);
}

std::optional<SchedulerEvent> read_failure(const std::string& token, std::string_view said) {
  if (holds_any(said, lost_answers)) return SubmitUnknown{token, std::string(said)};
  return read_limit(token, said, std::string(said));
}

SchedulerEvent read_submission(
    const std::string& token, int exit_code, std::string_view out, std::string_view err) {
  const std::string id = job_id_in(out);
  // An id proves acceptance, whatever else is printed.
  if (!id.empty()) return SubmitAccepted{token, id};
  std::string said = one_line(err, 400);
  if (said.empty()) said = "no message";
  if (exit_code <= 0) return SubmitUnknown{token, "sbatch gave no job id: " + said};
  if (holds_any(err, lost_answers)) return SubmitUnknown{token, said};
  if (auto limited = read_limit(token, err, said)) return *std::move(limited);
  if (err.find(refused) != std::string_view::npos ||
      err.find("sbatch: error:") != std::string_view::npos ||
      err.find("sbatch: fatal:") != std::string_view::npos ||
      err.find("sbatch: unrecognized option") != std::string_view::npos) {
    return SubmitRefused{token, said};
  }
  return SubmitUnknown{token, said};
}

SchedulerEvent read_array_submission(
    const std::string& token, int exit_code, std::string_view out, std::string_view err) {
  SchedulerEvent event = read_submission(token, exit_code, out, err);
  const auto element = element_in(token);
  auto* accepted = std::get_if<SubmitAccepted>(&event);
  if (accepted != nullptr && element) accepted->job_id += fmt::format("_{}", element->index);
  return event;
}

std::vector<std::string> submission_command(const AllocationRequest& request) {
  std::vector<std::string> command = common_words(request);
  command.push_back("--chdir=" + request.dir.string());
  command.push_back("--job-name=" + request.job_name);
  command.push_back(request.script.string());
  return command;
}

std::vector<std::string> array_command(
    const std::vector<AllocationRequest>& elements, const std::filesystem::path& script) {
  const AllocationRequest& first = elements.front();
  const ArrayElement of_token = element_in(first.token).value_or(ArrayElement{first.token, 0});
  const ArrayElement of_name = element_in(first.job_name).value_or(of_token);
  std::string indexes;
  for (const AllocationRequest& request : elements) {
    const auto element = element_in(request.token);
    if (element) indexes += fmt::format("{}{}", indexes.empty() ? "" : ",", element->index);
  }
  std::vector<std::string> command = common_words(first);
  command.push_back("--chdir=" + first.dir.parent_path().string());
  command.push_back("--job-name=" + of_name.array);
  command.push_back("--array=" + indexes);
  command.push_back("--output=" + element_pattern(AllocationPaths{first.dir}.log(), of_token));
  command.push_back(script.string());
  return command;
}

std::vector<std::string> command_environment(const std::vector<std::string>& own) {
  constexpr std::array<std::string_view, 11> kept{"HOME=", "USER=", "LOGNAME=", "SHELL=", "LANG=",
      "LC_ALL=", "TZ=", "SLURM_CONF=", "KRB5CCNAME=", "XDG_RUNTIME_DIR=", "PATH="};
  std::vector<std::string> clean;
  for (const std::string& entry : own) {
    const bool keep = std::any_of(kept.begin(), kept.end(),
        [&](std::string_view prefix) { return entry.compare(0, prefix.size(), prefix) == 0; });
    if (keep) clean.push_back(entry);
  }
  return clean;
}

}  // namespace shardsweep::slurm
