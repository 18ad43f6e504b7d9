// SPDX-License-Identifier: Apache-2.0
// One set of processes serves all cases; each rank compares what it holds with the reference
// that its parent computed before it forked, and leaves the verdict in shared memory.
#include "equality.hpp"

#include "equality_rank.hpp"
#include "rank_pool.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace shardbench {
namespace {

struct Totals {
  std::size_t failed = 0;
  double gradient = 0;
  double loss = 0;
  double weight = 0;
};

/// The worst of all ranks.
Verdict worst_of(const Verdict* verdicts, i64 world) {
  Verdict worst = verdicts[0];
  for (i64 rank = 1; rank < world; ++rank) {
    const Verdict& v = verdicts[rank];
    if (v.gradient_error > worst.gradient_error) worst.worst_tensor = v.worst_tensor;
    worst.loss_error = std::max(worst.loss_error, v.loss_error);
    worst.norm_error = std::max(worst.norm_error, v.norm_error);
    worst.gradient_error = std::max(worst.gradient_error, v.gradient_error);
    worst.weight_error = std::max(worst.weight_error, v.weight_error);
    worst.equals_meta = worst.equals_meta && v.equals_meta;
    worst.equals_formulas = worst.equals_formulas && v.equals_formulas;
    worst.done = worst.done && v.done;
  }
  return worst;
}

void report_case(const EqualityCase& c, const Verdict* verdicts, const Tolerance& tolerance,
    bool verbose, Totals& totals) {
  const Verdict v = worst_of(verdicts, c.layout.world());
  bool good = v.equals_meta && v.equals_formulas;
  for (i64 rank = 0; rank < c.layout.world(); ++rank)
    good = good && verdicts[rank].is_equal(tolerance);
  if (!good) ++totals.failed;
  totals.gradient = std::max(totals.gradient, v.gradient_error);
  totals.loss = std::max({totals.loss, v.loss_error, v.norm_error});
  totals.weight = std::max(totals.weight, v.weight_error);
  if (verbose || !good)
    std::printf("%s %s: loss %.1e, norm %.1e, gradient %.1e (tensor %llu), weights %.1e%s%s\n",
        good ? "ok  " : "FAIL", describe_case(c).c_str(), v.loss_error, v.norm_error,
        v.gradient_error, static_cast<unsigned long long>(v.worst_tensor), v.weight_error,
        v.equals_meta ? "" : ", costs differ from meta",
        v.equals_formulas ? "" : ", costs differ from formulas");
}

int run_cases(const EqualitySuite& suite, const std::vector<EqualityCase>& cases, bool verbose) {
  std::map<ReferenceKey, Reference> references;
  for (const EqualityCase& c : cases)
    if (const EqualityCase single = suite.single(c); references.count(key_of(single)) == 0)
      references[key_of(single)] = compute_reference(single);
  auto* verdicts =
      static_cast<Verdict*>(shared_memory(cases.size() * pool_ranks * sizeof(Verdict)));
  const bool lived = run_in_pool([&](Mesh& mesh) {
    // Open the GPU here: a process that has opened one can't fork.
    const std::unique_ptr<Platform> platform = suite.open(mesh.rank());
    u64 next_id = 1;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const EqualityCase& c = cases[i];
      if (mesh.rank() < c.layout.world())
        verdicts[i * pool_ranks + static_cast<std::size_t>(mesh.rank())] =
            judge(*platform, mesh, c, next_id, references.at(key_of(suite.single(c))));
      // Ids may come again once their first users are long gone.
      next_id = (next_id + ids_used(c)) % (u64{1} << 20);
    }
  });
  Totals totals;
  for (std::size_t i = 0; i < cases.size(); ++i)
    report_case(cases[i], verdicts + i * pool_ranks, suite.tolerance(cases[i]), verbose, totals);
  std::printf("%zu cases, %zu failed; worst: loss %.1e, gradient %.1e, weights %.1e%s\n",
      cases.size(), totals.failed, totals.loss, totals.gradient, totals.weight,
      lived ? "" : "; a rank died");
  // The next suite's processes are not to print it again.
  std::fflush(stdout);
  return totals.failed == 0 && lived ? 0 : 1;
}

}  // namespace

int run_equality(const EqualitySuite& suite, int argc, char** argv) {
  bool full = false;
  bool verbose = false;
  std::size_t every = 1;
  const char* only = "";
  for (int i = 1; i < argc; ++i) {
    full = full || std::strcmp(argv[i], "--full") == 0;
    verbose = verbose || std::strcmp(argv[i], "--verbose") == 0;
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      only = argv[++i];
    else if (std::strcmp(argv[i], "--every") == 0 && i + 1 < argc)
      every = std::max(1UL, std::strtoul(argv[++i], nullptr, 10));
  }
  std::vector<EqualityCase> cases = all_cases(suite.width);
  if (!full) cases = covering_subset(cases);
  std::vector<EqualityCase> chosen;
  for (std::size_t i = 0; i < cases.size(); i += every)
    if (describe_case(cases[i]).find(only) != std::string::npos)
      if (auto adapted = suite.adapt(cases[i])) chosen.push_back(*adapted);
  // A rank waits for its group for a minute at most: what it takes no part in comes last.
  std::stable_sort(chosen.begin(), chosen.end(), [](const EqualityCase& a, const EqualityCase& b) {
    return a.layout.world() > b.layout.world();
  });
  return run_cases(suite, chosen, verbose);
}

}  // namespace shardbench
