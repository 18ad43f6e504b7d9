// SPDX-License-Identifier: Apache-2.0
#include "yaml/mistakes.hpp"

#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace shardsweep::config {

void Mistakes::add(const YamlNode& at, Fault fault) {
  add(*at.source, at.line, at.column, std::move(fault));
}

void Mistakes::add(const Source& source, int line, int column, Fault fault) {
  if (noted_.size() >= most_mistakes_kept || !words_.insert(fault.what).second) return;
  noted_.push_back({index_of(source), line, column, std::move(fault)});
}

std::size_t Mistakes::index_of(const Source& source) {
  const auto found = std::find(files_.begin(), files_.end(), &source);
  if (found != files_.end()) return static_cast<std::size_t>(found - files_.begin());
  files_.push_back(&source);
  return files_.size() - 1;
}

Result<void> Mistakes::verdict() const {
  if (noted_.empty()) return {};
  if (noted_.size() == 1) return tl::unexpected(noted_.front().fault);
  auto sorted = noted_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Noted& a, const Noted& b) {
    return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
  });
  const auto shown = std::min(sorted.size(), most_mistakes_shown);
  std::string text;
  for (std::size_t at = 0; at < shown; ++at)
    text += sorted[at].fault.what + "\n";
  const bool one_file = std::all_of(sorted.begin(), sorted.end(), [&](const Noted& each) {
    return each.file == sorted.front().file;
  });
  text += fmt::format("{}{} mistakes", sorted.size() == most_mistakes_kept ? "more than " : "",
                      sorted.size() == most_mistakes_kept ? sorted.size() - 1 : sorted.size());
  if (one_file) {
    const auto& name = files_[sorted.front().file]->name();
    text += " in " + escaped(name, name.size());
  }
  if (shown < sorted.size()) text += fmt::format("; the first {} are shown", shown);
  return fault(sorted.front().fault.kind, std::move(text));
}

}  // namespace shardsweep::config
