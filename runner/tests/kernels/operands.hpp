// SPDX-License-Identifier: Apache-2.0
// What checks of the operations of device.hpp share: the fp64 reference, how near results must
// be, operands at any address with values around them that must stay.
#pragma once

#include "checks.hpp"
#include "device/cpu_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace shardbench {

/// One rounding, half a unit in the last place, with a thousandth for the arithmetic before it:
/// bf16 has 8 bits of significand, fp32 has 24.
constexpr double bf16_rounding = 1.001 / 256;
constexpr double fp32_rounding = 1.001 / (1 << 24);

/// Device that computes the reference, in fp64.
inline Device& reference() {
  static const std::unique_ptr<Device> device = make_cpu_device(Dtype::fp64);
  return *device;
}

/// How far each value may be off: relative · |want| + absolute.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

/// The largest |got − want|, in shares of what is tolerated: 1 is the bound. NaN if one is.
inline double worst_share(
    const std::vector<double>& got, const std::vector<double>& want, Tolerance tolerance) {
  if (got.size() != want.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    const double share =
        error == 0 ? 0 : error / (tolerance.relative * std::abs(want[i]) + tolerance.absolute);
    if (std::isnan(share)) return share;
    worst = std::max(worst, share);
  }
  return worst;
}

/// 0 if all are the same, else infinite.
inline double same_or_not(const std::vector<double>& got, const std::vector<double>& want) {
  return worst_share(got, want, {});
}

/// Values in device memory from element `offset` of an aligned array. Not from its start: with
/// others around them. From its start: nothing follows, so that reading on would show.
template <typename T>
class Operand {
 public:
  Operand(const Checks& checks, const std::vector<T>& values, i64 offset = 0)
      : offset_(offset), around_(surround(values, offset)), array_(checks.array(around_)) {}

  T* data() const { return array_.data() + offset_; }

  /// Values without the surroundings; all NaN if a kernel has written there.
  std::vector<double> read() const {
    const std::vector<T> all = array_.read();
    const auto first = static_cast<std::size_t>(offset_);
    const std::size_t last = all.size() - behind(offset_);
    const bool kept = equal(all, 0, first) && equal(all, last, all.size());
    std::vector<double> values;
    for (std::size_t i = first; i < last; ++i)
      values.push_back(kept ? to_double(all[i]) : std::numeric_limits<double>::quiet_NaN());
    return values;
  }

 private:
  static std::size_t behind(i64 offset) { return offset == 0 ? 0 : 3; }

  static std::vector<T> surround(const std::vector<T>& values, i64 offset) {
    std::vector<T> all(static_cast<std::size_t>(offset) + values.size() + behind(offset));
    std::memset(static_cast<void*>(all.data()), 0x5a, all.size() * sizeof(T));
    std::copy(values.begin(), values.end(), all.begin() + offset);
    return all;
  }

  bool equal(const std::vector<T>& all, std::size_t first, std::size_t last) const {
    return last == first ||
        std::memcmp(all.data() + first, around_.data() + first, (last - first) * sizeof(T)) == 0;
  }

  i64 offset_;
  std::vector<T> around_;
  DeviceArray<T> array_;
};

inline std::string words(const char* a, i64 value_a, const char* b, i64 value_b) {
  return std::string(a) + " " + std::to_string(value_a) + ", " + b + " " + std::to_string(value_b);
}

}  // namespace shardbench
