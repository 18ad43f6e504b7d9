// SPDX-License-Identifier: Apache-2.0
// Number formats and what each costs in bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardbench {

using i64 = std::int64_t;
using u64 = std::uint64_t;

enum class Dtype { bf16, fp32, fp64 };

constexpr std::string_view dtype_name(Dtype dtype) {
  return dtype == Dtype::bf16 ? "bf16" : dtype == Dtype::fp32 ? "fp32" : "fp64";
}

constexpr i64 dtype_size(Dtype dtype) {
  return dtype == Dtype::bf16 ? 2 : dtype == Dtype::fp32 ? 4 : 8;
}

/// Formats of a training run in `dtype`: bf16 keeps fp32 gradients, statistics and master
/// weights; fp32 and fp64 train in one format, without master weights.
struct Precision {
  Dtype value;           // weights and activations
  Dtype gradient;        // gradients, log-sum-exp, loss statistics
  i64 optimizer_copies;  // values of `gradient` format per parameter: m, v, and the master if
                         // any
};

constexpr Precision precision_of(Dtype dtype) {
  if (dtype == Dtype::bf16) return {Dtype::bf16, Dtype::fp32, 3};
  return {dtype, dtype, 2};
}

}  // namespace shardbench
