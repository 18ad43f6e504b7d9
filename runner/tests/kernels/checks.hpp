// SPDX-License-Identifier: Apache-2.0
// Checks of kernels: fresh random inputs, an fp64 reference, one table row per comparison.
//
// They use kernels.hpp and gpu.hpp alone, so that the same source is linked with the emulated
// GPU and with a real one.
#pragma once

#include "base/counter_random.hpp"
#include "cuda/gpu.hpp"
#include "device/bf16.hpp"

#include <string>
#include <vector>

namespace shardbench {

/// Random values; the seed of the run decides them all.
class Random {
 public:
  explicit Random(u64 seed) : seed_(seed) {}
  /// Mean 0, variance 1, at most 3.5 from it.
  double normal() { return normal_from(mix(seed_, counter_++)); }
  /// Number from 0 to limit − 1.
  i64 below(i64 limit) {
    return static_cast<i64>(mix(seed_, counter_++) % static_cast<u64>(limit));
  }
  /// `count` normal values times `scale`, rounded to T (Bf16, float or double).
  template <typename T>
  std::vector<T> normals(i64 count, double scale = 1);

 private:
  u64 seed_;
  u64 counter_ = 0;
};

inline double to_double(double value) {
  return value;
}
inline double to_double(Bf16 value) {
  return static_cast<double>(to_float(value));
}
template <typename T>
std::vector<double> to_doubles(const std::vector<T>& values) {
  std::vector<double> doubles;
  doubles.reserve(values.size());
  for (const T value : values)
    doubles.push_back(to_double(value));
  return doubles;
}

/// An array in device memory, aligned to 16 bytes.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(gpu::Stream stream, i64 count);
  DeviceArray(gpu::Stream stream, const std::vector<T>& values);
  DeviceArray(DeviceArray&& other) noexcept;
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray();

  T* data() const { return data_; }
  /// Waits for the stream.
  std::vector<T> read() const;
  std::vector<double> read_doubles() const { return to_doubles(read()); }

 private:
  gpu::Stream stream_;
  i64 count_;
  T* data_;
};

/// ‖got − want‖ / ‖want‖.
double relative_error(const std::vector<double>& got, const std::vector<double>& want);
/// max |got − want|; NaN if one is.
double largest_error(const std::vector<double>& got, const std::vector<double>& want);

class Checks {
 public:
  /// Flags: --seed N (default: the clock), --full, --json FILE. Opens the GPU; ends the process
  /// if there is none.
  Checks(int argc, char** argv);
  ~Checks();
  Checks(const Checks&) = delete;
  Checks& operator=(const Checks&) = delete;

  /// True if more shapes are wanted than CI has time for.
  bool full() const { return full_; }
  /// Sequences as they are trained with: for a GPU.
  bool at_length() const { return at_length_; }
  bool wants(const std::string& part) const { return only_.empty() || only_ == part; }
  gpu::Stream stream() const { return stream_; }
  Random& random() { return random_; }

  template <typename T>
  DeviceArray<T> array(i64 count) const {
    return DeviceArray<T>(stream_, count);
  }
  template <typename T>
  DeviceArray<T> array(const std::vector<T>& values) const {
    return DeviceArray<T>(stream_, values);
  }

  /// One row: good if error ≤ bound.
  void row(const std::string& name, const std::string& shape, double error, double bound);
  /// Writes the JSON file; the exit status: 0 if all rows are good.
  int finish() const;

 private:
  struct Row {
    std::string name;
    std::string shape;
    double error;
    double bound;
    bool good() const { return error <= bound; }  // false for NaN
  };

  u64 seed_ = 0;
  bool full_ = false;
  bool at_length_ = false;
  std::string only_;
  std::string json_path_;
  Random random_{0};
  gpu::Facts gpu_;
  gpu::Stream stream_;
  std::vector<Row> rows_;
};

// One file each.
void check_attention(Checks& checks);
void check_elementwise(Checks& checks);
void check_experts(Checks& checks);
void check_fp8(Checks& checks);
void check_losses(Checks& checks);
void check_norms(Checks& checks);
void check_training(Checks& checks);

}  // namespace shardbench
