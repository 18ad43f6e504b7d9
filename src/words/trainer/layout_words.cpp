// SPDX-License-Identifier: Apache-2.0
#include "trainer/layout_words.hpp"

#include <fmt/format.h>

namespace shardsweep {

tl::unexpected<Fault> no_words(
    std::string_view trainer, std::string_view axis, std::string_view value) {
  return fault(
      FaultKind::invalid_input, fmt::format("{} has no words for {} {}", trainer, axis, value));
}

Result<std::int64_t> degree(const Settings& settings, std::string_view name) {
  SHARDSWEEP_ASSIGN(const std::int64_t value, settings.number(name, 1));
  if (value < 1)
    return fault(FaultKind::invalid_input, fmt::format("{}: a degree is 1 or more", name));
  return value;
}

Result<std::int64_t> product(std::initializer_list<std::int64_t> factors) {
  std::int64_t all = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(all, factor, &all))
      return fault(FaultKind::invalid_input,
          fmt::format("{} is more than any run has", fmt::join(factors, " x ")));
  }
  return all;
}

Result<void> derive(TrainerLayout& layout, std::int64_t gpus, std::int64_t global_batch) {
  SHARDSWEEP_ASSIGN(const std::int64_t rest, product({layout.tp, layout.pp, layout.cp}));
  if (gpus <= 0) return fault(FaultKind::invalid_input, "how many GPUs? It derives dp from them");
  if (gpus % rest != 0)
    return fault(FaultKind::invalid_input,
        fmt::format("{} GPUs do not divide into tp {} x pp {} x cp {}", gpus, layout.tp, layout.pp,
            layout.cp));
  layout.dp = gpus / rest;
  SHARDSWEEP_ASSIGN(const std::int64_t samples, product({layout.dp, layout.micro_batch}));
  if (global_batch == 0) global_batch = samples;
  if (global_batch % samples != 0)
    return fault(FaultKind::invalid_input,
        fmt::format("{} samples per train step do not divide into dp {} x micro-batch "
                    "{}",
            global_batch, layout.dp, layout.micro_batch));
  layout.grad_accum = global_batch / samples;
  return {};
}

}  // namespace shardsweep
