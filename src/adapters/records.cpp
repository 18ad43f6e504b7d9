// SPDX-License-Identifier: Apache-2.0
// Reads a runner's records: JSON lines from a process that may have been killed, may be buggy
// and may not be ours.
#include <shardsweep/metric.hpp>
#include <shardsweep/records.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_line = 1 << 20;
constexpr std::size_t most_samples = 10'000;

std::string text_of(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

std::optional<double> number_of(const Json& record, std::string_view key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Numbers of all ranks; empty where one of them is none, or there are more than any world has.
template <class T>
std::vector<T> numbers_of(const Json& record, std::string_view key) {
  constexpr std::size_t most_ranks = 100'000;
  const auto found = record.find(key);
  std::vector<T> numbers;
  if (found == record.end() || !found->is_array() || found->size() > most_ranks) return {};
  for (const Json& item : *found) {
    const double value = item.is_number() ? item.get<double>() : -1;
    if (!(value >= 0 && value < 1e9)) return {};
    numbers.push_back(static_cast<T>(value));
  }
  return numbers;
}

struct Summary {
  RecordsSummary summary;
  std::vector<TrainStepSample> samples;
  Json hosts = Json::array();

  void add_start(const Json& record) {
    if (const std::string version = text_of(record, "version"); !version.empty()) {
      summary.runner_version = version;
    } else if (summary.runner_version.empty()) {
      summary.runner_version = "unknown";
    }
    const std::string host = text_of(record, "host");
    if (!host.empty() && std::find(hosts.begin(), hosts.end(), host) == hosts.end()) {
      hosts.push_back(host);
    }
  }

  void add_train_step(const Json& record) {
    const auto step = number_of(record, "step");
    const auto step_ms = number_of(record, "step_ms");
    if (!step || !step_ms || samples.size() >= most_samples) return;
    samples.push_back({static_cast<std::int32_t>(std::clamp(*step, 0.0, 2e9)), *step_ms,
                       number_of(record, "loss").value_or(0)});
  }

  void add_result(const Json& record, std::string_view line) {
    if (summary.result) return;  // the first one counts
    if (const auto network = record.find("network");
        network != record.end() && network->is_object())
      summary.busbw_bytes_per_s =
          std::max(0.0, number_of(*network, "busbw_gb_per_s").value_or(0)) * 1e9;
    AddMeasurement measurement;
    for (const MetricInfo& metric : metric_table) {
      if (const auto value = number_of(record, metric.name)) {
        measurement.metrics.emplace(metric.name, *value);
      }
    }
    // A result without the number that layouts are ranked by is none.
    if (measurement.metrics.find("tokens_per_s_per_gpu") == measurement.metrics.end()) return;
    measurement.flops_model = text_of(record, "flops_model");
    measurement.detail = line;
    summary.own_work = {numbers_of<double>(record, "busy_ms_by_rank"),
                        numbers_of<std::int32_t>(record, "stage_by_rank")};
    summary.result = std::move(measurement);
  }

  void add_error(const Json& record) {
    const auto row = runner_exit_class(text_of(record, "class"));
    if (!row || summary.error) return;
    summary.error = row->outcome;  // peer_lost has none: the first cause is elsewhere
    if (summary.error) summary.error_message = text_of(record, "message");
  }

  void add_line(std::string_view line, std::string_view nonce) {
    if (line.size() > longest_line) {
      ++summary.malformed;
      return;
    }
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object() || text_of(record, "type").empty()) {
      ++summary.malformed;
      return;
    }
    if (text_of(record, "run_id") != nonce) {
      ++summary.foreign;
      return;
    }
    const std::string type = text_of(record, "type");
    if (type == "start") add_start(record);
    if (type == "train_step") add_train_step(record);
    if (type == "result") add_result(record, line);
    if (type == "error") add_error(record);
  }
};

}  // namespace

RecordsSummary summarise_records(std::string_view text, std::string_view nonce) {
  Summary reader;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    // A last line without its newline was torn by a crash.
    if (end == std::string_view::npos) break;
    if (end > 0) reader.add_line(text.substr(0, end), nonce);
    text.remove_prefix(end + 1);
  }
  if (reader.summary.result) {
    reader.summary.result->samples = std::move(reader.samples);
    reader.summary.result->runner_version = reader.summary.runner_version;
    reader.summary.result->hosts =
        reader.hosts.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return std::move(reader.summary);
}

}  // namespace shardsweep
