// SPDX-License-Identifier: Apache-2.0
#include "answer/best_text.hpp"

#include "answer/answer.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsweep {

std::string cell_text(const CellKey& cell, const std::vector<CellBest>& among) {
  const auto varies = [&](auto member) {
    return std::any_of(among.begin(), among.end(),
        [&](const CellBest& other) { return other.cell.*member != cell.*member; });
  };
  std::vector<std::string> parts;
  if (varies(&CellKey::model)) parts.push_back(cell.model);
  if (cell.nodes > 0 && varies(&CellKey::nodes)) parts.push_back(counted(cell.nodes, "node"));
  if (cell.nodes == 0 && varies(&CellKey::gpus)) parts.push_back(counted(cell.gpus, "GPU"));
  if (varies(&CellKey::seq_len)) parts.push_back(fmt::format("seq_len {}", cell.seq_len));
  if (varies(&CellKey::vars)) parts.push_back(vars_text(cell.vars));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string best_text(const CellBest& best, const std::vector<CellBest>& among) {
  const auto which = cell_text(best.cell, among);
  return fmt::format("best{}: {} tokens/s/GPU with {} ({}): {}",
      which.empty() ? "" : " of " + which, amount_text(best.tokens_per_s_per_gpu), best.layout,
      best.trial, certainty_text(best.answer));
}

std::string brief_text(const CellAnswer& answer) {
  if (answer.winner() == nullptr) return {};
  const auto word = short_form(answer);
  if (word == "alone") return counted(std::ssize(answer.winner()->runs), "run");
  const auto& verdict = answer.winner()->verdict;
  if (word == "faster") return fmt::format("faster by {}", percent_text(verdict.share));
  // The layout with the highest median may be behind in its pairs: then no number shows who leads.
  if (verdict.share <= 0) return std::string(word);
  return fmt::format("{}, +{}", word, percent_text(verdict.share));
}

std::string ended_text(std::string_view ended, const std::vector<CellBest>& cells) {
  constexpr std::size_t most = 3;
  std::string text(ended);
  for (std::size_t i = 0; i < std::min(cells.size(), most); ++i) {
    text += "; " + best_text(cells[i], cells);
    if (const auto doubts = doubts_text(cells[i].answer); !doubts.empty())
      text += fmt::format(" (doubtful: {})", doubts);
  }
  if (cells.size() > most)
    text += fmt::format(
        "; and {}", counted(static_cast<std::int64_t>(cells.size() - most), "more cell"));
  return text;
}

}  // namespace shardsweep
