// SPDX-License-Identifier: Apache-2.0
// Matrix products on the GPU, each by the fastest algorithm that the library has for its shape.
//
// Algorithms are settled before the clock of any train step starts: every candidate does the
// product a few times with operands of its own, by itself. A product that was not settled is
// done by the library's first candidate, and the record says so.
#pragma once

#include "cuda/gpu.hpp"
#include "cuda/product_library.hpp"
#include "device/device.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardbench {

class MatrixProducts {
 public:
  explicit MatrixProducts(std::unique_ptr<ProductLibrary> library);

  void multiply(gpu::Stream stream, const Gemm& gemm);
  /// Settles shapes that have no choice yet. `pause` is called while the host waits for the GPU.
  void settle(
      gpu::Stream stream, const std::vector<GemmKey>& keys, const std::function<void()>& pause);
  std::string library() const { return library_->name(); }
  /// A JSON object: `unsettled` counts the shapes that were used without a choice; `choices`
  /// has for each settled shape the candidate, their number, its time and that of the first,
  /// which the library would have taken.
  std::string choices_json() const;

 private:
  struct ProductChoice {
    std::unique_ptr<PreparedProduct> product;
    bool settled = false;
    std::size_t candidate = 0;
    double seconds = 0;
    double first_seconds = 0;
  };
  ProductChoice& known(const GemmKey& key);

  std::unique_ptr<ProductLibrary> library_;
  std::map<GemmKey, ProductChoice> known_;
};

}  // namespace shardbench
