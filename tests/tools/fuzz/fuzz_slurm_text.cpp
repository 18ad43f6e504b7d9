// SPDX-License-Identifier: Apache-2.0
// The texts of squeue, sacct, scontrol, sinfo, sacctmgr and sbatch: garbage is refused as a
// whole and changes nothing; what is read has a meaning. The first byte chooses the command.
#include "fuzzing.hpp"
#include "slurm/words/look.hpp"
#include "slurm/words/settings.hpp"
#include "slurm/words/submission.hpp"
#include "slurm/words/survey.hpp"
#include "text/node_list.hpp"

#include <algorithm>
#include <variant>

namespace {

using namespace shardsweep;
using namespace shardsweep::slurm;

void check_jobs(const Result<std::vector<Job>>& jobs) {
  if (!jobs) return fuzzing::check_fault(jobs.error());
  std::vector<AllocationHandle> handles;
  for (const Job& job : *jobs) {
    (void)read_state(job, 1000);
    (void)describe(job, 1000);
    (void)explain_reason(job.reason);
    (void)nodes_in(job.nodes);
    if (handles.size() < 4)
      handles.push_back({.token = job.name.substr(job.name.rfind('_') + 1),
          .job_name = job.name,
          .job_id = job.id});
  }
  (void)to_be_accounted(handles, *jobs);
  MissedJobs missed;
  for (const double now : {0.0, 30.0, 60.0}) {
    const auto result =
        conclude(handles, *jobs, {.own_uid = 1000, .now_s = now, .accounting = true}, missed);
    const auto seen = std::count_if(result.events.begin(), result.events.end(),
        [](const SchedulerEvent& event) { return std::holds_alternative<JobSeen>(event); });
    if (static_cast<std::size_t>(seen) > handles.size())
      fuzzing::fail("more jobs seen than allocations", std::to_string(seen));
  }
}

template <class Read>
void check_survey(std::string_view text, Read read) {
  SiteFacts facts;
  if (!read_partitions("main*|up|8|1:00|1|1|gpu:8|idle\n", facts))
    fuzzing::fail("no partitions", "");
  const SiteFacts before = facts;
  const Result<void> done = read(text, facts);
  if (done) return;
  fuzzing::check_fault(done.error());
  if (facts != before) fuzzing::fail("a refused text has changed something", std::string(text));
}

void check_answer(std::string_view text) {
  const auto half = text.size() / 2;
  for (const int exit_code : {0, 1, -1}) {
    (void)read_submission("3f9a01ab", exit_code, text.substr(0, half), text.substr(half));
    (void)read_array_submission("3f9a01ab.4", exit_code, text.substr(0, half), text.substr(half));
  }
  (void)read_failure("3f9a01ab", text);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [number, text] = fuzzing::chosen(data, size, 8);
  switch (number) {
    case 0:
      check_jobs(parse_queue(text));
      break;
    case 1:
      check_jobs(parse_accounting(text));
      break;
    case 2:
      if (const auto settings = parse_settings(text); !settings)
        fuzzing::check_fault(settings.error());
      break;
    case 3:
      check_survey(text, &read_partitions);
      break;
    case 4:
      check_survey(text, [](std::string_view waiting, SiteFacts& into) {
        return read_waiting(waiting, 1000, into);
      });
      break;
    case 5:
      check_survey(text, &read_accounts);
      break;
    case 6:
      check_survey(text, &read_qos);
      break;
    default:
      check_answer(text);
  }
  return 0;
}
