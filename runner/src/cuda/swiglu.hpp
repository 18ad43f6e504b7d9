// SPDX-License-Identifier: Apache-2.0
// silu(gate) · up of single values, and its gradient.
#pragma once

#include "cuda/kernel_language.hpp"

namespace shardbench::kernels {

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

__device__ inline float swiglu_of(float gate, float up) {
  return gate * sigmoid(gate) * up;
}

struct GateUp {
  float gate;
  float up;
};
__device__ inline GateUp swiglu_gradient(float gate, float up, float d) {
  const float s = sigmoid(gate);
  const float silu = gate * s;
  return {d * up * (s + silu * (1.0F - s)), d * silu};
}

}  // namespace shardbench::kernels
