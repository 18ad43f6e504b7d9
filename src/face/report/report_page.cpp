// SPDX-License-Identifier: Apache-2.0
#include "report/report_page.hpp"

#include "picture/svg.hpp"
#include "report/page.hpp"
#include "report/page_data.hpp"
#include "report/sections.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>

namespace shardsweep {
namespace {

std::string page_title(const ReportFacts& facts) {
  const auto& sweeps = facts.sweeps;
  std::string names;
  constexpr std::size_t most_named = 4;
  for (std::size_t i = 0; i < std::min(sweeps.size(), most_named); ++i)
    names += (names.empty() ? "" : ", ") + sweeps[i].sweep;
  if (sweeps.size() > most_named) names += fmt::format(" and {} more", sweeps.size() - most_named);
  return names.empty() ? "shardsweep report" : names;
}

}  // namespace

std::optional<std::int64_t> ReportInput::memory_limit() const {
  std::optional<std::int64_t> limit;
  for (const auto& cluster : clusters) {
    if (cluster.memory_bytes <= 0 || (limit && *limit != cluster.memory_bytes)) return std::nullopt;
    limit = cluster.memory_bytes;
  }
  return limit;
}

std::optional<Price> price_from(const std::string& text) {
  Price price;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), price.per_gpu_hour);
  if (error != std::errc() || !(price.per_gpu_hour > 0)) return std::nullopt;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (!rest.empty() && rest.front() != ' ') return std::nullopt;
  while (rest.starts_with(' '))
    rest.remove_prefix(1);
  price.currency = std::string(rest);
  return price;
}

std::string report_page(const ReportInput& input) {
  const auto& trials = input.facts.trials;
  const TrialRows rows(trials);
  const auto cells = cells_of_page(input.heatmap, trials);
  const ReportView view{input, trials, rows, cells};
  std::string body = "<main>\n" + header_section(view) + answer_section(view);
  body += parallel_section(view) + axes_section(view);
  body += "<div class=\"pair\">\n" + predicted_section(view) + scaling_section(view) +
      history_section(view) + use_section(view) + failures_section(view) + "</div>\n";
  body += side_runs_section(view) + nodes_section(view) + trials_section(view);
  body += conditions_section(view) + reproduce_section(view);
  body += "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n" + data_element(view);
  auto page = html_page(page_title(input.facts), body, PageScript::whole);
  if (input.refresh_s > 0) {
    const std::string_view head = "<meta charset=\"utf-8\">\n";
    page.insert(page.find(head) + head.size(),
        fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", input.refresh_s));
  }
  return page;
}

}  // namespace shardsweep
