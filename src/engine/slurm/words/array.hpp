// SPDX-License-Identifier: Apache-2.0
// Allocations that are submitted together, as one job array. Each stays an allocation of its
// own, with token, folder, claim and state: its token is the array's and the element's index
// ("3f9a01ab.4"), its job name ends with it. Slurm's own name of such a job is the array's, and
// its id ends with "_index": what looks it up puts the two together again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

/// The token of an array's element.
[[nodiscard]] std::string element_token(std::string_view array_token, std::int64_t index);

struct ArrayElement {
  std::string array;  ///< text before ".index": of a job name, Slurm's name of the array
  std::int64_t index = 0;
};
/// Element that a token or job name stands for; empty: an allocation whose job is no element.
[[nodiscard]] std::optional<ArrayElement> element_in(std::string_view token_or_name);

/// The job name of the allocation whose job Slurm lists under `name` with `id`.
/// A line that stands for several elements ("12_[3-9]") is nobody's.
[[nodiscard]] std::string allocation_name(std::string_view name, std::string_view id);

/// The ids of the elements that a line of sacct stands for: "12_[0-2,5]" are 12_0, 12_1, 12_2
/// and 12_5. An id of one job is itself; what is no such list, or is longer than any array,
/// too.
[[nodiscard]] std::vector<std::string> element_ids(std::string_view id);

/// Slurm's own name for the job with `id` of the allocation called `job_name`: it may have been
/// submitted as an element or, where an array was not to be had, by itself.
[[nodiscard]] std::string slurm_name(std::string_view job_name, std::string_view id);

/// An element's path as a pattern that sbatch fills in: its folder's name ends with ".index".
[[nodiscard]] std::string element_pattern(
    const std::filesystem::path& file, const ArrayElement& of_token);

struct ElementScript {
  std::int64_t index = 0;
  std::filesystem::path path;
};
/// The script of an array: the interpreter and the options of `first` (the text of one of the
/// elements' scripts; all have the same), then each element goes on with its own.
[[nodiscard]] std::string array_script(
    std::string_view first, std::span<const ElementScript> elements);

}  // namespace shardsweep::slurm
