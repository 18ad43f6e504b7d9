// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_input.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace shardsweep {
namespace {

Result<RecordedFormat> format_of(const std::string& word) {
  for (std::size_t i = 0; i < recorded_format_words.size(); ++i) {
    if (recorded_format_words[i] == word) return static_cast<RecordedFormat>(i);
  }
  return fault(FaultKind::invalid_input,
               fmt::format("--from {}: unknown kind of table; the kinds are {}", word,
                           fmt::join(recorded_format_words, ", ")));
}

/// A fraction ("0.01") or a percentage ("1%").
std::optional<double> fraction_in(std::string_view text) {
  const bool percent = !text.empty() && text.back() == '%';
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return percent ? value / 100 : value;
}

tl::unexpected<Fault> refuse_until(std::string_view what) {
  return fault(
      FaultKind::invalid_input,
      fmt::format("--until: {}; write regret=1%,confidence=95%, runs=20 or gpu_hours=5", what));
}

Result<void> set_until(std::string_view key, std::string_view value, SearchUntil& until) {
  const auto number = fraction_in(value);
  if (!number || *number <= 0)
    return refuse_until(fmt::format("'{}' is not a number above 0", value));
  if (key == "regret" && *number < 1) {
    until.regret = *number;
  } else if (key == "confidence" && *number < 1) {
    until.confidence = *number;
  } else if (key == "runs" && *number == static_cast<double>(std::int64_t(*number))) {
    until.runs = static_cast<std::int64_t>(*number);
  } else if (key == "gpu_hours") {
    until.gpu_hours = *number;
  } else {
    return refuse_until(fmt::format("'{}={}'", key, value));
  }
  return {};
}

tl::unexpected<Fault> refuse_without_family() {
  std::string names;
  for (const auto& each : families())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
  return fault(
      FaultKind::invalid_input,
      fmt::format("--family is missing: give the family of the table's trainer: {}", names));
}

}  // namespace

Result<SearchUntil> until_from(const std::string& text) {
  SearchUntil until;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return refuse_until(fmt::format("'{}'", item));
    SHARDSWEEP_TRY(set_until(item.substr(0, equals), item.substr(equals + 1), until));
  }
  return until;
}

Result<RecordedInput> read_recorded_input(const Session& session, FamilyNeed need) {
  const auto& options = session.options;
  SHARDSWEEP_ASSIGN(const auto format, format_of(options.recorded.from));
  const bool nanotron = format == RecordedFormat::nanotron;
  RecordedInput input;
  const auto cluster =
      options.asked.cluster.empty() && nanotron ? "h100-8x" : options.asked.cluster;
  if (cluster.empty())
    return fault(FaultKind::invalid_input,
                 "--cluster is missing: give the preset of the cluster of these runs");
  SHARDSWEEP_ASSIGN(input.cluster, load_cluster(cluster, session.installation.presets));
  const auto family =
      options.asked.family.empty() && nanotron ? "nanotron" : options.asked.family;
  if (family.empty() && need == FamilyNeed::must_be_said) return refuse_without_family();
  if (!family.empty()) {
    SHARDSWEEP_ASSIGN(input.family, find_family(family));
  }
  SHARDSWEEP_ASSIGN(
      input.sweep, read_recorded(options.file, {.format = format,
                                                .presets = session.installation.presets,
                                                .gpus_per_node = input.cluster.gpus_per_node}));
  SHARDSWEEP_TRY(keep_where(input.sweep, options.where));
  return input;
}

}  // namespace shardsweep
