// SPDX-License-Identifier: Apache-2.0
#include "domain/predict/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep {

std::span<const Family> families() {
  static const std::array<Family, 4> all{{
      {"shardbench", "the benchmark that comes with shardsweep", &shardbench_cuda_memory()},
      {"nanotron", "Hugging Face nanotron, as in the Ultra-Scale Playbook",
       &shardbench_cuda_memory()},
      {"megatron", "Megatron-LM and what is built on Megatron core", &shardbench_cuda_memory()},
      {"fsdp", "PyTorch FSDP without tensor or pipeline parallelism, or with torchtitan's",
       &shardbench_cuda_memory()},
  }};
  return all;
}

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const auto& family : families()) {
    if (family.name == name) return &family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.name);
  }
  return fault(FaultKind::invalid_input,
               fmt::format("unknown family '{}'; there are: {}", name, known));
}

const Family& family_of_runner(std::string_view runner) {
  const auto all = families();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Family& family) {
    return runner.substr(0, family.name.size()) == family.name;
  });
  return found == all.end() ? all.front() : *found;
}

}  // namespace shardsweep
