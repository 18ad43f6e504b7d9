// SPDX-License-Identifier: Apache-2.0
// slurmrestd's list of jobs as it arrives. It has no filter by name or user: on a large cluster
// the list is hundreds of MiB, of which a few jobs are ours.
#pragma once

#include <shardsweep/result.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

/// A document from which the elements of its list "jobs" are taken out one by one. Pure: the
/// pieces may be of any size.
class JobListFilter {
 public:
  /// Gives for an element the JSON that stays in its place; "": none.
  using Reduce = std::function<std::string(std::string_view element)>;
  static constexpr std::size_t longest_element = 8 << 20;

  explicit JobListFilter(Reduce reduce) : reduce_(std::move(reduce)) {}
  /// Kept part of the next piece. A fault if an element is longer than `longest_element`.
  [[nodiscard]] Result<std::string> take(std::string_view piece);

 private:
  void take_structure(char c, std::string& kept);
  void take_in_string(char c);
  void end_element(std::string& kept);
  [[nodiscard]] bool in_list() const { return list_ && depth_ >= 2; }

  Reduce reduce_;
  std::string element_;
  std::string word_;       ///< the last text of the outermost object, cut after a few bytes
  int depth_ = 0;          ///< open braces and brackets
  bool list_ = false;      ///< inside the list of jobs
  bool string_ = false;    ///< inside a text
  bool escaped_ = false;   ///< the next character of a text stands for itself
  bool kept_one_ = false;  ///< a comma goes before the next element
};

/// Elements that name one of these jobs. Names of jobs hold nothing that JSON escapes.
[[nodiscard]] JobListFilter::Reduce jobs_named(std::vector<std::string> names);

}  // namespace shardsweep::slurm
