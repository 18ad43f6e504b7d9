// SPDX-License-Identifier: Apache-2.0
#include "slurm/rest_list.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep::slurm {
namespace {

constexpr std::string_view list_key = "jobs";

}  // namespace

Result<std::string> JobListFilter::take(std::string_view piece) {
  std::string kept;
  for (const char c : piece) {
    if (string_) {
      take_in_string(c);
      (in_list() ? element_ : kept) += c;
    } else {
      take_structure(c, kept);
    }
    if (element_.size() > longest_element) {
      return fault(FaultKind::unavailable, "slurmrestd's list holds a job of more than {} MiB",
          longest_element >> 20);
    }
  }
  return kept;
}

void JobListFilter::take_in_string(char c) {
  if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    string_ = false;
    return;
  }
  if (depth_ == 1 && word_.size() <= list_key.size()) word_ += c;
}

void JobListFilter::take_structure(char c, std::string& kept) {
  const bool opens = c == '{' || c == '[';
  const bool closes = c == '}' || c == ']';
  if (in_list() && depth_ == 2 && (c == ',' || closes)) end_element(kept);
  if (c == '"') {
    string_ = true;
    if (depth_ == 1) word_.clear();
  }
  if (closes && --depth_ < 2) list_ = false;
  // The brackets of the list itself, and all that is outside of it, stay.
  const bool separates = in_list() && depth_ == 2 && c == ',';
  if (in_list()) {
    if (!separates) element_ += c;
  } else {
    kept += c;
  }
  if (!opens) return;
  if (++depth_ == 2 && c == '[' && word_ == list_key) {
    list_ = true;
    kept_one_ = false;
  }
}

void JobListFilter::end_element(std::string& kept) {
  const std::string_view element = trimmed(element_);
  if (!element.empty()) {
    const std::string stays = reduce_(element);
    if (!stays.empty()) {
      if (std::exchange(kept_one_, true)) kept += ',';
      kept += stays;
    }
  }
  element_.clear();
}

JobListFilter::Reduce jobs_named(std::vector<std::string> names) {
  for (std::string& name : names)
    name = fmt::format("\"{}\"", name);
  return [names = std::move(names)](std::string_view element) {
    const bool ours = std::any_of(names.begin(), names.end(),
        [&](const std::string& name) { return element.find(name) != std::string_view::npos; });
    return std::string(ours ? element : std::string_view());
  };
}

}  // namespace shardsweep::slurm
