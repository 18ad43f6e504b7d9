// SPDX-License-Identifier: Apache-2.0
// Answers of the CUDA libraries, for the files that call them.
#pragma once

#include <cuda_runtime_api.h>

namespace shardbench::gpu {

/// Ends the rank (class internal) when the driver refused, naming the call and its word for it.
void accept(cudaError_t answer, const char* call);

}  // namespace shardbench::gpu
