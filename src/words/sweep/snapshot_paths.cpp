// SPDX-License-Identifier: Apache-2.0
#include "sweep/snapshot_paths.hpp"

namespace shardsweep {
namespace {

constexpr std::string_view between = ":,=";

bool ends_an_element(std::string_view text, std::size_t at) {
  return at == text.size() || text[at] == '/' ||
         between.find(text[at]) != std::string_view::npos;
}

}  // namespace

std::string moved(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  bool begins = true;  // an element
  while (!text.empty()) {
    if (begins && !from.empty() && text.starts_with(from) &&
        ends_an_element(text, from.size())) {
      out += to;
      text.remove_prefix(from.size());
      begins = false;
      continue;
    }
    begins = between.find(text.front()) != std::string_view::npos;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

SweepSpec in_snapshot(SweepSpec sweep, const std::string& tree) {
  RunnerSpec& runner = sweep.runner;
  if (runner.snapshot_hash.empty()) return sweep;
  const auto move = [&](std::string& text) { text = moved(text, runner.snapshot_root, tree); };
  move(runner.program);
  for (auto& word : runner.args)
    move(word);
  for (auto& word : runner.trainer.argv)
    move(word);
  move(runner.trainer.directory);
  for (auto& [name, value] : sweep.env)
    move(value);
  return sweep;
}

}  // namespace shardsweep
