// SPDX-License-Identifier: Apache-2.0
#include "predict/family.hpp"

#include "trainer/trainer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace shardsweep {
namespace {

/// The family of programs of no other one. Nobody asks for it by name.
constexpr std::string_view of_any_other = "other";

struct BuiltInFamilies {
  std::vector<Family> named;
  Family other;
  /// shardbench's with each of its profiles.
  std::map<std::string_view, Family, std::less<>> profiles;
};

const BuiltInFamilies& built_in() {
  static const auto all = [] {
    BuiltInFamilies read;
    for (const std::string_view name : trainers_with_files()) {
      const auto& family = trainer_file(name).family;
      if (!family) continue;
      if (family->name == of_any_other)
        read.other = *family;
      else
        read.named.push_back(*family);
    }
    for (const std::string_view profile : shardbench_profiles()) {
      Family family = *trainer_file("shardbench").family;
      for (const NamedText& habit : trainer_file(profile).profile)
        set_habit(family.memory, habit.name, habit.text);
      read.profiles.emplace(profile, std::move(family));
    }
    return read;
  }();
  return all;
}

}  // namespace

std::span<const Family> families() {
  return built_in().named;
}

Result<const Family*> find_family(std::string_view name) {
  if (const Family* own = own_family(name)) return own;
  std::string known;
  for (const auto& family : families()) {
    if (family.name == name) return &family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.name);
  }
  return fault(FaultKind::invalid_input, "unknown family '{}'; there are: {}", name, known);
}

bool is_built_in(const Family& family) {
  return std::any_of(families().begin(), families().end(),
      [&](const Family& one) { return one.name == family.name; });
}

const Family& family_of_runner(std::string_view runner) {
  if (const Family* own = own_family(runner)) return *own;
  const auto all = families();
  const auto found = std::find_if(all.begin(), all.end(),
      [&](const Family& family) { return runner.starts_with(family.name); });
  return found == all.end() ? built_in().other : *found;
}

const Family& usual_family(UsualOn on) {
  const auto all = families();
  return *std::find_if(
      all.begin(), all.end(), [&](const Family& family) { return family.usual_on == on; });
}

const Family& default_family(const ClusterSpec& cluster) {
  return usual_family(cluster.gpu.empty() ? UsualOn::cpus : UsualOn::gpus);
}

bool same_hardware(const ClusterSpec& a, const ClusterSpec& b) {
  return std::tie(a.gpu, a.gpus_per_node, a.memory_bytes) ==
      std::tie(b.gpu, b.gpus_per_node, b.memory_bytes);
}

bool is_kin(const SweepSpec& a, const SweepSpec& b) {
  const Family& family = family_of(a.runner);
  // Programs of no known family have nothing in common but that.
  const bool same_trainer = is_built_in(family) || a.runner.known_as() == b.runner.known_as();
  return a.cluster.name == b.cluster.name && same_hardware(a.cluster, b.cluster) &&
      a.proof_of.empty() && b.proof_of.empty() && &family == &family_of(b.runner) && same_trainer;
}

const Family& family_of(const RunnerSpec& runner) {
  if (const Family* own = own_family(runner.trainer.told_as())) return *own;
  const auto profile = built_in().profiles.find(runner.profile);
  const bool has_profile = runner.is_shardbench() && profile != built_in().profiles.end();
  return has_profile ? profile->second : family_of_runner(runner.known_as());
}

const MemoryFamily& shardbench_cuda_memory() {
  return built_in().other.memory;
}

}  // namespace shardsweep
