// SPDX-License-Identifier: Apache-2.0
// Out of memory with enough of it: PyTorch's allocator held free memory in pieces that were too
// small. A layout that would need less may meet it too, so it rules out no other one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// A clause on memory that PyTorch held in pieces, from a line of output: "PyTorch held 3.1 GiB
/// that nobody used, in pieces, …". None if memory was really used up, or the line does not tell.
[[nodiscard]] std::optional<std::string> fragmentation_in(std::string_view line);

/// True where PyTorch tells of a GPU that another process has a tenth of it or more, and more
/// than was asked for: what is neither free nor this process's.
[[nodiscard]] bool other_memory_in(std::string_view line);

/// Variable with which PyTorch's allocator is told to keep its memory in segments that grow.
inline constexpr std::string_view allocator_variable = "PYTORCH_CUDA_ALLOC_CONF";
/// Name of the same variable in newer versions of PyTorch.
inline constexpr std::string_view new_allocator_variable = "PYTORCH_ALLOC_CONF";

/// The value of such a variable, with expandable_segments:True in it.
[[nodiscard]] std::string with_expandable_segments(std::string_view value);

}  // namespace shardsweep
