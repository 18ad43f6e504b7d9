// SPDX-License-Identifier: Apache-2.0
// slurmrestd's documents, of whatever shape. The first byte chooses the request.
#include "fuzzing.hpp"
#include "slurm/rest_json.hpp"

namespace {

using namespace shardsweep;
using namespace shardsweep::slurm;

void check_jobs(const Result<std::vector<Job>>& jobs) {
  if (!jobs) return fuzzing::check_fault(jobs.error());
  for (const Job& job : *jobs) {
    (void)read_state(job, 1000);
    (void)describe(job);
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

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [number, body] = fuzzing::chosen(data, size, 6);
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
    default:
      check_answers(body);
  }
  return 0;
}
