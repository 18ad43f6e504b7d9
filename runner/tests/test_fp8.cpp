// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits, the scales of tensors, and the record of a run that trains in them.
#include "communication/null_communicator.hpp"
#include "device/cpu_device.hpp"
#include "device/cpu_platform.hpp"
#include "device/fp8_scaling.hpp"
#include "measurement/profile.hpp"
#include "measurement/run_records.hpp"
#include "parallel/trainer.hpp"
#include "program/options.hpp"
#include "program/rules.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace shardbench;

namespace {

/// Finds the nearest number by trying all; a tie goes to the even significand.
std::uint8_t nearest(float value, Element element) {
  int best = 0;
  for (int bits = 0; bits < 128; ++bits) {
    const float number = from_fp8(static_cast<std::uint8_t>(bits), element);
    if (!std::isfinite(number)) continue;
    const float distance = std::abs(std::abs(value) - number);
    const float least =
        std::abs(std::abs(value) - from_fp8(static_cast<std::uint8_t>(best), element));
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

float one_unit(const std::vector<float>& values, Element element, float limit) {
  CpuDevice<float> device;
  std::vector<std::uint8_t> bits(values.size());
  float unit = 0;
  device.quantize({values.data(), 1, static_cast<i64>(values.size()), element, bits.data(), nullptr,
      &limit, &unit, nullptr});
  return unit;
}

}  // namespace

TEST_CASE("numbers of 8 bits are what the format says") {
  using enum Element;
  CHECK(from_fp8(0x7e, e4m3) == 448);
  CHECK(from_fp8(0x01, e4m3) == std::ldexp(1.0F, -9));
  CHECK(from_fp8(0x38, e4m3) == 1);
  CHECK(std::isnan(from_fp8(0x7f, e4m3)));
  CHECK(from_fp8(0x7b, e5m2) == 57344);
  CHECK(from_fp8(0x01, e5m2) == std::ldexp(1.0F, -16));
  CHECK(from_fp8(0x3c, e5m2) == 1);
  CHECK(from_fp8(0xbc, e5m2) == -1);
  CHECK(std::isinf(from_fp8(0x7c, e5m2)));
}

TEST_CASE("values become the nearest number, and those beyond all the largest") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto number = static_cast<std::uint8_t>(bits);
      const float value = from_fp8(number, element);
      if (std::isfinite(value)) CHECK(to_fp8(value, element) == number);
    }
    for (int exponent = -20; exponent < 20; ++exponent)
      for (int i = 0; i < 200; ++i) {
        // Many bits, then few, so that there are ties.
        float value = std::ldexp(normal(random), exponent);
        if (i % 2 == 0)
          value = std::ldexp(std::nearbyint(std::ldexp(value, 4 - exponent)), exponent - 4);
        CAPTURE(value);
        REQUIRE(to_fp8(value, element) == nearest(value, element));
      }
    CHECK(std::abs(from_fp8(to_fp8(-1e30F, element), element)) == largest_of(element));
    CHECK(std::isnan(from_fp8(to_fp8(std::nanf(""), element), element)));
  }
}

TEST_CASE("a scale makes the limit the largest number, and one without a meaning changes nothing") {
  CHECK(one_unit({1, 2}, Element::e4m3, 448) == 1);
  CHECK(one_unit({1, 2}, Element::e4m3, 7) == doctest::Approx(7.0 / 448));
  CHECK(one_unit({1, 2}, Element::e5m2, 7) == doctest::Approx(7.0 / 57344));
  for (const float limit : {0.0F, std::nanf(""), INFINITY})
    CHECK(one_unit({1, 2}, Element::e4m3, limit) == 1);
}

TEST_CASE("a product in FP8 is that of the values that its numbers stand for") {
  constexpr i64 m = 3;
  constexpr i64 n = 2;
  constexpr i64 k = 4;
  // Each a number of its format, at the scale that makes 7 (3.5) the largest.
  const std::vector<double> a{7, -3.5, 0.875, 0, 1, 1.75, -7, 3.5, 0.4375, 0, 0, 7};
  const std::vector<double> b{3.5, 1.75, -0.875, 3.5, 0, 3.5, -1.75, 0.875};
  CpuDevice<double> device;
  std::vector<std::uint8_t> a8(a.size());
  std::vector<std::uint8_t> b8(b.size());
  const float limit_a = 7;
  const float limit_b = 3.5;
  float unit_a = 0;
  float unit_b = 0;
  device.quantize({a.data(), m, k, Element::e4m3, a8.data(), nullptr, &limit_a, &unit_a, nullptr});
  // Take b as [k, n], transposed into rows along k.
  std::vector<double> b_columns(b.size());
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < k; ++j)
      b_columns[static_cast<std::size_t>(j * n + i)] = b[static_cast<std::size_t>(i * k + j)];
  device.quantize(
      {b_columns.data(), k, n, Element::e5m2, nullptr, b8.data(), &limit_b, &unit_b, nullptr});
  std::vector<double> want(m * n, 1.0);
  std::vector<double> got(m * n, 1.0);
  Gemm gemm{.transpose_b = Transpose::yes,
      .m = m,
      .n = n,
      .k = k,
      .a = a.data(),
      .lda = k,
      .b = b.data(),
      .ldb = k,
      .c = want.data(),
      .ldc = n,
      .accumulate = Accumulate::yes,
      .gradient_output = true};
  device.gemm(gemm);
  gemm.a = a8.data();
  gemm.b = b8.data();
  gemm.c = got.data();
  gemm.element_a = Element::e4m3;
  gemm.element_b = Element::e5m2;
  gemm.unit_a = &unit_a;
  gemm.unit_b = &unit_b;
  device.gemm(gemm);
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-6));
}

TEST_CASE("delayed scaling takes the largest magnitude of the train steps that it keeps") {
  CpuDevice<float> device;
  std::vector<float> limits{0, 0};
  std::vector<float> seen{0, 0};
  std::vector<float> history(6, 0);
  const std::vector<std::vector<float>> steps{{1, 8}, {5, 2}, {2, 1}, {3, 0.5}, {1, 4}};
  const std::vector<std::vector<float>> want{{1, 8}, {5, 8}, {5, 8}, {5, 2}, {3, 4}};
  for (std::size_t step = 0; step < steps.size(); ++step) {
    seen = steps[step];
    device.keep_amax(
        {limits.data(), seen.data(), history.data(), 2, 3, static_cast<i64>(step) % 3});
    CHECK(limits == want[step]);
    CHECK(seen == std::vector<float>{0, 0});
  }
}

TEST_CASE("--dtype names FP8 with its recipe, beside the device's own format") {
  const auto parsed = [](std::vector<std::string> more) {
    Options defaults;
    defaults.device = "cpu";
    std::vector<std::string> flags{"--model", "tiny", "--records", "/tmp/none"};
    flags.insert(flags.end(), more.begin(), more.end());
    return parse_options(
        flags, [](const char*) -> const char* { return nullptr; }, defaults);
  };
  CHECK(parsed({"--dtype", "fp8"}).options.layout.fp8 == Scaling::current);
  CHECK(parsed({"--dtype", "fp8"}).options.dtype == Dtype::fp32);
  const Options meta = parsed({"--device", "meta", "--dtype", "fp8-delayed"}).options;
  CHECK(meta.layout.fp8 == Scaling::delayed);
  CHECK(meta.dtype == Dtype::bf16);
  const Options last = parsed({"--dtype", "fp8", "--dtype", "fp64"}).options;
  CHECK(last.layout.fp8 == Scaling::none);
  CHECK(last.dtype == Dtype::fp64);
  CHECK(parsed({"--dtype", "fp4"}).error.has_value());
  JsonObject record;
  add_start_fields(record, meta);
  CHECK(record.str().find(R"("dtype":"fp8-delayed")") != std::string::npos);
  CHECK(record.str().find(R"("recipe":"delayed")") != std::string::npos);
  const std::string can = capabilities_json({cpu_platform()}, profiles().front());
  CHECK(can.find(R"("dtype":["fp32","fp64","fp8","fp8-delayed"])") != std::string::npos);
}
