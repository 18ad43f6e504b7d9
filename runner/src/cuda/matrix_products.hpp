// SPDX-License-Identifier: Apache-2.0
// Matrix products on the GPU. A link-time seam as gpu.hpp: cublaslt_products.cpp, or plain
// loops where the GPU is emulated.
#pragma once

#include "cuda/gpu.hpp"
#include "device.hpp"

#include <memory>
#include <string>

namespace shardbench {

/// bf16 operands, sums in fp32; the result in bf16, or in fp32 where the Gemm says so.
class MatrixProducts {
 public:
  virtual ~MatrixProducts() = default;
  MatrixProducts() = default;
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  virtual void multiply(gpu::Stream stream, const Gemm& gemm) = 0;
  /// "cublasLt 13.1.0": for the start record.
  virtual std::string library() const = 0;
};

std::unique_ptr<MatrixProducts> make_matrix_products();

}  // namespace shardbench
