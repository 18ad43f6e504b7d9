// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/planner_case.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace shardsweep::bench {
namespace {

void leave_as_is(Case&, Random&, std::uint64_t) {}

/// The first two seeds move everything one way and the other, by all that may be.
double drawn_factor(double by, Random& random, std::uint64_t seed) {
  const double drawn = random.between(1 - by, 1 + by);
  return seed == 0 ? 1 - by : seed == 1 ? 1 + by : drawn;
}

void perturb_memory(Case& c, Random& random, std::uint64_t seed) {
  using Constant = double MemoryFamily::*;
  constexpr std::array<Constant, 15> constants{&MemoryFamily::bf16_gradient_bytes,
      &MemoryFamily::overhead_bytes, &MemoryFamily::between_rows, &MemoryFamily::query_rows,
      &MemoryFamily::key_rows, &MemoryFamily::ffn_rows, &MemoryFamily::norm_row_bytes,
      &MemoryFamily::probability_bytes, &MemoryFamily::logits_bytes, &MemoryFamily::working_layers,
      &MemoryFamily::allocator_bytes, &MemoryFamily::bucket_bytes, &MemoryFamily::step_gather_bytes,
      &MemoryFamily::tp_buffer_rows, &MemoryFamily::tp_retained_rows};
  for (const auto constant : constants) {
    const double factor = drawn_factor(0.15, random, seed);
    c.family.memory.*constant *= factor;
    if (c.family.least) (*c.family.least).*constant *= factor;
  }
}

/// As if every estimate were off by one factor: a device of another size.
void perturb_device(Case& c, Random& random, std::uint64_t seed) {
  c.cluster.memory_bytes = static_cast<std::int64_t>(
      drawn_factor(0.15, random, seed) * static_cast<double>(c.cluster.memory_bytes));
}

/// The cluster file says a quarter of what some links carry.
void perturb_links(Case& c, Random& random, std::uint64_t seed) {
  const std::array<double*, 3> links{&c.cluster.intra_node_bandwidth,
      &c.cluster.inter_node_bandwidth, &c.cluster.inter_node_group_bandwidth};
  for (auto* link : links) {
    if (random.one_in(0.5) || seed == 0) *link /= 4;
  }
}

void perturb_kernel(Case& c, Random& random, std::uint64_t seed) {
  const std::array<double*, 3> rates{
      &c.cluster.gemm_efficiency, &c.cluster.attention_efficiency, &c.cluster.memory_bandwidth};
  constexpr double by = 0.3;
  const bool slower = random.one_in(0.5);
  *rates.at(seed % rates.size()) *= slower ? 1 - by : 1 + by;
}

void add_noise(Case& c, Random& random, std::uint64_t) {
  const double noise = random.between(0.02, 0.05);
  for (auto& run : c.sweep.runs) {
    if (run.tokens_per_s_per_gpu) *run.tokens_per_s_per_gpu *= std::exp(noise * random.normal());
  }
}

void crash_some(Case& c, Random& random, std::uint64_t) {
  for (auto& run : c.sweep.runs) {
    if (!random.one_in(0.1)) continue;
    run.outcome = Outcome::crashed;
    run.tokens_per_s_per_gpu.reset();
    run.peak_memory_bytes.reset();
  }
}

/// The column is not there: the point has what is usual.
void forget_zero(Case& c, Random&, std::uint64_t) {
  for (auto& run : c.sweep.runs) {
    run.unknown.zero = true;
    run.point.layout.zero = 0;
  }
}

/// A kernel that has a name, of which nobody knows what it keeps.
void rename_kernel(Case& c, Random&, std::uint64_t) {
  for (auto& run : c.sweep.runs)
    run.kernel = run.kernel.empty() ? "k" : fmt::format("k{}", run.kernel.size());
}

/// No column says the kernel: rows of two kernels look alike.
void forget_kernel(Case& c, Random&, std::uint64_t) {
  for (auto& run : c.sweep.runs)
    run.kernel.clear();
}

void forget_columns(Case& c, Random& random, std::uint64_t seed) {
  forget_zero(c, random, seed);
  forget_kernel(c, random, seed);
  for (auto& run : c.sweep.runs) {
    run.unknown.recompute = true;
    run.point.layout.recompute = Recompute::none;
    run.unknown.sequence_parallel = true;
    run.point.layout.sequence_parallel = false;
    run.peak_memory_bytes.reset();
  }
}

/// The same of a table whose rows are one reading: no two of them look alike.
void forget_columns_of_one(Case& c, Random& random, std::uint64_t seed) {
  const auto& first = c.sweep.runs.at(random.index(c.sweep.runs.size()));
  const auto kept = first.point.layout;
  const auto kernel = first.kernel;
  std::erase_if(c.sweep.runs, [&](const RecordedRun& run) {
    return run.point.layout.zero != kept.zero || run.point.layout.recompute != kept.recompute ||
        run.kernel != kernel;
  });
  forget_columns(c, random, seed);
  for (auto& run : c.sweep.runs)
    run.unknown.attention = true;
}

/// A preset of other hardware, up to what a device holds.
void mistake_hardware(Case& c, Random&, std::uint64_t seed) {
  const auto* other = c.cluster.name == "h100-8x" ? "a100-80gb-8x" : "h100-8x";
  const auto preset =
      load_cluster(seed % 2 == 0 ? other : "h200-8x", SHARDSWEEP_SOURCE_DIR "/sweeps");
  if (!preset) return;
  const auto memory = c.cluster.memory_bytes;
  c.cluster = *preset;
  c.cluster.memory_bytes = memory;
}

/// Somebody's own trainer: plain formulas stand in for what it keeps and costs.
void mistake_trainer(Case& c, Random&, std::uint64_t) {
  c.family = family_of_runner("somebody's own");
}

constexpr std::array<Ignorance, 16> all{
    {{"as it is", leave_as_is}, {"knows other models' rows", leave_as_is, ReplayFit::other_models},
        {"knows other cells' rows", leave_as_is, ReplayFit::other_cells},
        {"memory constants +-15 %", perturb_memory}, {"all memory +-15 %", perturb_device},
        {"links / 4", perturb_links}, {"one kernel +-30 %", perturb_kernel},
        {"2-5 % more noise", add_noise}, {"10 % crashes", crash_some},
        {"ZeRO unknown", forget_zero}, {"kernel of unknown name", rename_kernel},
        {"no kernel column", forget_kernel, ReplayFit::none, true},
        {"columns missing", forget_columns}, {"columns of one reading", forget_columns_of_one},
        {"another GPU's preset", mistake_hardware}, {"unknown trainer", mistake_trainer}}};

/// Rows of one software state and one global batch, where nanotron's columns say so: others
/// can't be compared.
constexpr const char* comparable =
    "(pp = 1 OR software_version IS NULL OR software_version = 'after_pp_fix' OR "
    "outcome <> 'completed') AND dp*micro_batch*grad_accum = 256";

Result<Case> table_of(const std::filesystem::path& file, const TableOptions& options) {
  Case c{.name = file.stem().string()};
  SHARDSWEEP_ASSIGN(c.cluster, load_cluster(options.cluster, options.presets));
  SHARDSWEEP_ASSIGN(const auto* family, find_family(options.family));
  c.family = *family;
  const RecordedOptions read{.presets = options.presets, .gpus_per_node = c.cluster.gpus_per_node};
  auto nanotron = read;
  nanotron.format = RecordedFormat::nanotron;
  if (auto sweep = read_recorded(file, nanotron)) {
    c.sweep = std::move(*sweep);
    SHARDSWEEP_TRY(keep_where(c.sweep, comparable));
    return c;
  }
  SHARDSWEEP_ASSIGN(c.sweep, read_recorded(file, read));
  return c;
}

}  // namespace

std::span<const Ignorance> ignorances() {
  return all;
}

std::vector<Case> tables_of(const std::filesystem::path& folder, const TableOptions& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files) {
    auto table = table_of(file, options);
    if (table) {
      cases.push_back(std::move(*table));
    } else {
      const auto& why = table.error().what;
      fmt::print(stderr, "not a table of runs: {}\n", why.substr(0, why.find('\n')));
    }
  }
  return cases;
}

}  // namespace shardsweep::bench
