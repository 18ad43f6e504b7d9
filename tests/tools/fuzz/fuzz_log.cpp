// SPDX-License-Identifier: Apache-2.0
// Output of ranks, of NCCL and of srun: whatever it is, it has one verdict. A first line that
// begins with `#rule ` is the pattern of a rule of the user's own.
#include "attempt/classify.hpp"
#include "attempt/step_output.hpp"
#include "fuzzing.hpp"

namespace {

using namespace shardsweep;

void check(const Evidence& verdict) {
  fuzzing::check_words("a control character in a cause", verdict.ending.cause);
  fuzzing::check_words("a control character beside a cause", verdict.ending.also);
}

std::vector<Cause> own_causes(std::string_view& log) {
  constexpr std::string_view mark = "#rule ";
  if (!log.starts_with(mark)) return {};
  const auto line = log.substr(0, log.find('\n'));
  log.remove_prefix(line.size());
  return {{.pattern = std::string(line.substr(mark.size())), .outcome = Outcome::crashed}};
}

void judge(std::string_view log) {
  const auto own = own_causes(log);
  const auto finding = find_cause(log, own);
  for (const bool alone : {false, true}) {
    std::vector<Evidence> evidence;
    if (const auto exit = evidence_of_exit(0, 1, 5, ""); exit && !alone) evidence.push_back(*exit);
    join_log(evidence, 0, finding, 10, alone);
    apply_own_causes(evidence, own);
    check(classify(evidence, false));
    check(classify(evidence, true));
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string log(data, data + size);
  judge(log);
  for (const auto& complaint : nccl_complaints(log, 5))
    fuzzing::check_words("a control character in a complaint", complaint);
  fuzzing::check_words(
      "a control character in a step's cause", evidence_of_step(log, 1, 7, false).ending.cause);
  fuzzing::check_words(
      "a control character in a step's cause", evidence_of_no_step(log, "why", 7).ending.cause);
  return 0;
}
