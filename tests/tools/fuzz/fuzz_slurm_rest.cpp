// SPDX-License-Identifier: Apache-2.0
// slurmrestd's documents, of whatever shape. The first byte chooses the request.
#include "fuzzing.hpp"
#include "slurm/rest_json.hpp"
#include "slurm/rest_list.hpp"

namespace {

using namespace shardsweep;
using namespace shardsweep::slurm;

void check_jobs(const Result<std::vector<Job>>& jobs) {
  if (!jobs) return fuzzing::check_fault(jobs.error());
  for (const Job& job : *jobs) {
    (void)read_state(job, 1000);
    (void)describe(job, 1000);
  }
}

template <class Read>
void check_survey(std::string_view body, Read read) {
  SiteFacts facts;
  if (const Result<void> done = read(body, facts); !done) {
    fuzzing::check_fault(done.error());
    if (facts != SiteFacts{})
      fuzzing::fail("a refused document has changed something", std::string(body));
  }
}

void check_answers(std::string_view body) {
  for (const long status : {200L, 400L, 500L}) {
    fuzzing::check_words("a control character in a refusal", why_refused(status, body));
    (void)read_rest_submission("3f9a01ab", status, body);
  }
  (void)submitted_job(body);
}

/// A list of jobs in pieces, and at once, says the same of a job of ours.
void check_list(std::string_view body, const std::vector<std::string>& names) {
  if (body.empty()) return;
  const std::size_t size = 1 + static_cast<unsigned char>(body.front()) % 16;
  body.remove_prefix(1);
  JobListFilter filter(jobs_named(names));
  std::string kept;
  for (std::size_t at = 0; at < body.size(); at += size) {
    const auto stays = filter.take(body.substr(at, size));
    if (!stays) fuzzing::fail("a short list was refused", stays.error().what);
    kept += *stays;
  }
  // An escape writes a name in another way, as Slurm does not.
  if (body.find('\\') != std::string_view::npos) return;
  const auto whole = read_jobs(body, names);
  const auto filtered = read_jobs(kept, names);
  if (whole && (!filtered || filtered->size() != whole->size()))
    fuzzing::fail("the filter has lost a job", kept);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [number, body] = fuzzing::chosen(data, size, 7);
  const std::vector<std::string> names{"s-n2_3f9a01ab"};
  switch (number) {
    case 0:
      if (const auto api = choose_api(body); !api) fuzzing::check_fault(api.error());
      break;
    case 1:
      check_jobs(read_jobs(body, names));
      break;
    case 2:
      check_jobs(read_accounted_jobs(body, names));
      break;
    case 3:
      check_survey(body, &read_rest_partitions);
      break;
    case 4:
      check_survey(body, [](std::string_view text, SiteFacts& into) {
        return read_rest_waiting(text, 1000, into);
      });
      break;
    case 6:
      check_list(body, names);
      break;
    default:
      check_answers(body);
  }
  return 0;
}
