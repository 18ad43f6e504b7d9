// SPDX-License-Identifier: Apache-2.0
// A library of matrix products and its algorithms for one of them. A link-time seam as gpu.hpp:
// cublaslt_library.cpp, or plain loops where the GPU is emulated.
#pragma once

#include "cuda/gpu.hpp"
#include "device/gemm_key.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace shardbench {

/// Operands in bf16 or FP8, sums in fp32; the result in bf16, or in fp32 where the key says so.
class PreparedProduct {
 public:
  virtual ~PreparedProduct() = default;
  PreparedProduct() = default;
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  /// Number of candidates, at least 1, in the library's order of preference.
  virtual std::size_t candidates() const = 0;
  virtual void run(gpu::Stream stream, const Gemm& gemm, std::size_t candidate) = 0;
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  ProductLibrary() = default;
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  virtual std::unique_ptr<PreparedProduct> prepare(const GemmKey& key) = 0;
  /// "cublasLt 13.1.0": for the start record.
  virtual std::string name() const = 0;
};

std::unique_ptr<ProductLibrary> make_product_library();

}  // namespace shardbench
