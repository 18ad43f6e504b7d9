// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace shardbench {
namespace {

template <typename T>
T rounded(double value) {
  return static_cast<T>(value);
}
template <>
Bf16 rounded<Bf16>(double value) {
  return to_bf16(static_cast<float>(value));
}

void synchronize(gpu::Stream stream) {
  const gpu::Event event = gpu::make_event(gpu::Timing::off);
  gpu::record(event, stream);
  while (!gpu::reached(event)) {
  }
  gpu::release_event(event);
}

template <typename T>
i64 bytes_of(i64 count) {
  return count * static_cast<i64>(sizeof(T));
}

template <typename T>
T* allocate_array(i64 count) {
  std::byte* data = gpu::allocate(bytes_of<T>(count));
  check(data != nullptr, "the GPU has memory for the check");
  return reinterpret_cast<T*>(data);
}

}  // namespace

template <typename T>
std::vector<T> Random::normals(i64 count, double scale) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values)
    value = rounded<T>(normal() * scale);
  return values;
}

template <typename T>
DeviceArray<T>::DeviceArray(gpu::Stream stream, i64 count)
    : stream_(stream), count_(count), data_(allocate_array<T>(count)) {}

template <typename T>
DeviceArray<T>::DeviceArray(gpu::Stream stream, const std::vector<T>& values)
    : DeviceArray(stream, static_cast<i64>(values.size())) {
  gpu::upload(stream_, data_, values.data(), bytes_of<T>(count_));
}

template <typename T>
DeviceArray<T>::DeviceArray(DeviceArray&& other) noexcept
    : stream_(other.stream_), count_(other.count_), data_(std::exchange(other.data_, nullptr)) {}

template <typename T>
DeviceArray<T>::~DeviceArray() {
  if (data_ == nullptr) return;
  synchronize(stream_);
  gpu::release(reinterpret_cast<std::byte*>(data_));
}

template <typename T>
std::vector<T> DeviceArray<T>::read() const {
  std::vector<T> values(static_cast<std::size_t>(count_));
  gpu::download(stream_, values.data(), data_, bytes_of<T>(count_));
  synchronize(stream_);
  return values;
}

#define SHARDBENCH_INSTANTIATE(T)                          \
  template std::vector<T> Random::normals<T>(i64, double); \
  template class DeviceArray<T>;
SHARDBENCH_INSTANTIATE(Bf16)
SHARDBENCH_INSTANTIATE(float)
SHARDBENCH_INSTANTIATE(double)
#undef SHARDBENCH_INSTANTIATE
template class DeviceArray<std::int32_t>;
template class DeviceArray<std::uint8_t>;

double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  check(got.size() == want.size(), "as many values as the reference has");
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  check(got.size() == want.size(), "as many values as the reference has");
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (!(error <= largest)) largest = error;
    if (std::isnan(largest)) break;
  }
  return largest;
}

Checks::Checks(int argc, char** argv) : seed_(static_cast<u64>(unix_time_s() * 1e6)) {
  for (int i = 1; i < argc; ++i) {
    const bool value_follows = i + 1 < argc;
    if (std::strcmp(argv[i], "--full") == 0)
      full_ = true;
    else if (std::strcmp(argv[i], "--long") == 0)
      at_length_ = true;
    else if (std::strcmp(argv[i], "--seed") == 0 && value_follows)
      seed_ = std::strtoull(argv[++i], nullptr, 10);
    else if (std::strcmp(argv[i], "--only") == 0 && value_follows)
      only_ = argv[++i];
    else if (std::strcmp(argv[i], "--json") == 0 && value_follows)
      json_path_ = argv[++i];
    else
      fail(ErrorClass::usage, std::string("not a flag: ") + argv[i]);
  }
  if (const auto reason = gpu::unavailable()) fail(ErrorClass::usage, *reason);
  gpu_ = gpu::open(0);
  stream_ = gpu::make_stream(gpu::Priority::normal);
  random_ = Random(seed_);
  std::printf("%s, --seed %llu\n%-28s %-28s %10s %10s\n", gpu_.name.c_str(),
      static_cast<unsigned long long>(seed_), "check", "shape", "error", "bound");
}

Checks::~Checks() {
  gpu::release_stream(stream_);
}

void Checks::row(const std::string& name, const std::string& shape, double error, double bound) {
  const Row row{name, shape, error, bound};
  std::printf("%-28s %-28s %10.3g %10.3g %s\n", name.c_str(), shape.c_str(), error, bound,
      row.good() ? "ok" : "WRONG");
  std::fflush(stdout);
  rows_.push_back(row);
}

int Checks::finish() const {
  const auto wrong =
      std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.good(); });
  std::printf("%zu checks, %td wrong\n", rows_.size(), wrong);
  if (!json_path_.empty()) {
    std::vector<std::string> rows;
    for (const Row& row : rows_)
      rows.push_back(JsonObject()
                         .text("name", row.name)
                         .text("shape", row.shape)
                         .number("error", row.error)
                         .number("bound", row.bound)
                         .boolean("ok", row.good())
                         .str());
    std::ofstream file(json_path_);
    file << JsonObject()
                .text("gpu", gpu_.name)
                .integer("seed", static_cast<i64>(seed_))
                .raw("checks", json_array(rows))
                .str()
         << '\n';
    if (!file.flush()) fail(ErrorClass::internal, "cannot write " + json_path_);
  }
  return wrong == 0 && !rows_.empty() ? 0 : 1;
}

}  // namespace shardbench
