// SPDX-License-Identifier: Apache-2.0
// Reads a runner's records: JSON lines from a process that may have been killed, may be buggy
// and may not be ours. The daemon reads all of them once, as a summary; an agent reads each
// line as it is written, and only what the watch needs. A line that is malformed or another
// attempt's is passed over: one bad line must not cost a measurement. Only of a result is it
// said why it does not count.
//
// Decision: A result record without a usable metric counts as a crash of the runner. Unknown
// keys stay in `measurements.detail`, and `results` finds them by name.
#include "record/json_values.hpp"
#include "text/characters.hpp"

#include <shardsweep/metric.hpp>
#include <shardsweep/rank_variables.hpp>
#include <shardsweep/record.hpp>
#include <shardsweep/records.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

using json::longest_line;
using JsonValue = nlohmann::json;

constexpr std::size_t most_samples = 10'000;
constexpr std::size_t most_reasons = 200;  // bytes of what held a clock back
// Repeated timings of one run differ by less.
constexpr double same_speed = 0.01;

std::string text_of(const JsonValue& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<double> number_of(const JsonValue& record, std::string_view key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Numbers of all ranks; empty if one of them is none, or there are more than any world has.
template <class T>
std::vector<T> numbers_of(const JsonValue& record, std::string_view key) {
  constexpr std::size_t most_ranks = 100'000;
  const auto found = record.find(key);
  std::vector<T> numbers;
  if (found == record.end() || !found->is_array() || found->size() > most_ranks) return {};
  for (const JsonValue& item : *found) {
    const double value = item.is_number() ? item.get<double>() : -1;
    if (!(value >= 0 && value < 1e9)) return {};
    numbers.push_back(static_cast<T>(value));
  }
  return numbers;
}

/// NaN and Infinity, which Python's json writes, as texts: then the rest can be read.
std::string with_quoted_numbers(std::string_view line) {
  constexpr std::array<std::string_view, 3> words{"NaN", "-Infinity", "Infinity"};
  std::string out;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size();) {
    const auto word = std::find_if(words.begin(), words.end(),
        [&](std::string_view each) { return !in_text && line.substr(i, each.size()) == each; });
    if (word != words.end()) {
      out += fmt::format("\"{}\"", *word);
      i += word->size();
      continue;
    }
    // A backslash escapes the next character, so that a quote after it does not end the text.
    const bool escapes = in_text && line[i] == '\\' && i + 1 < line.size();
    if (line[i] == '"') in_text = !in_text;
    if (escapes) out += line[i++];
    out += line[i++];
  }
  return out;
}

/// "is text ('fast')": what stands in the place of a number.
std::string value_kind(const JsonValue& value) {
  constexpr std::size_t most_shown = 40;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "NaN" || text == "Infinity" || text == "-Infinity") return "is " + text;
    return fmt::format("is text ('{}')", one_line(text, most_shown));
  }
  if (value.is_null()) return "is null";
  if (value.is_boolean()) return value.get<bool>() ? "is true" : "is false";
  return value.is_array() ? "is a list" : "is an object";
}

/// A rank that ran alone on one GPU (`prove`) tells its memory, and no speed.
bool is_proof(const JsonValue& result) {
  return number_of(result, "proof").value_or(0) > 0;
}

/// Sentence on a wrong metric of a result; empty: it is right. Metrics outside the ranking may be
/// null.
std::string flaw_of(const MetricInfo& metric, const JsonValue& result) {
  const bool required =
      metric.name == (is_proof(result) ? "peak_memory_bytes" : "tokens_per_s_per_gpu");
  const auto found = result.find(metric.name);
  if (found == result.end())
    return required ? fmt::format("The result record lacks {}.", metric.name) : "";
  if (found->is_null() && !required) return "";
  if (!found->is_number())
    return fmt::format(
        "In the result record, {} {}, not a number.", metric.name, value_kind(*found));
  const double value = found->get<double>();
  constexpr double most = 9e18;  // limit of a whole number
  if (!(std::abs(value) < most))
    return fmt::format("In the result record {} is {:g}, which is too large.", metric.name, value);
  if (required && value <= 0)
    return fmt::format(
        "In the result record {} is {:g}; it has to be above 0.", metric.name, value);
  // A loss may be anything.
  if (value < 0 && metric.name != "loss")
    return fmt::format(
        "In the result record {} is {:g}; it may not be negative.", metric.name, value);
  return "";
}

std::string flaw_of(const JsonValue& result) {
  for (const MetricInfo& metric : metric_table) {
    if (auto flaw = flaw_of(metric, result); !flaw.empty()) return flaw;
  }
  return "";
}

/// Sentence on a second result that contradicts the first one; empty: it does not.
std::string contradiction_of(const AddMeasurement& first, const JsonValue& second) {
  for (const char* name : {"tokens_per_s_per_gpu", "train_step_ms"}) {
    const auto one = first.metrics.find(name);
    const auto two = number_of(second, name);
    if (one == first.metrics.end() || !two) continue;
    const double larger = std::max(std::abs(one->second), std::abs(*two));
    if (std::abs(one->second - *two) <= same_speed * larger) continue;
    return fmt::format(
        "two result records contradict each other: {} is {:.6g} in the first one and {:.6g} in "
        "another",
        name, one->second, *two);
  }
  return "";
}

/// Why a result's train step can't be one of those that its records give; empty: it can.
/// Slack is for what the timer of a record leaves out.
std::string outside_of_steps(
    const AddMeasurement& result, const std::vector<TrainStepSample>& samples) {
  constexpr double slack = 1.5;
  const double step_ms = result.metric("train_step_ms");
  if (step_ms <= 0 || samples.empty() || samples.size() >= most_samples) return "";
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end(),
      [](const auto& a, const auto& b) { return a.step_ms < b.step_ms; });
  if (least->step_ms <= slack * step_ms && step_ms <= slack * most->step_ms) return "";
  return fmt::format(
      "train_step_ms is {:.6g}, but the train steps on record took {:.6g} to {:.6g} ms", step_ms,
      least->step_ms, most->step_ms);
}

/// True for the result of a run that was ended early: whoever ends it writes the result while the
/// run may be writing its own.
bool gave_up(const JsonValue& result) {
  return number_of(result, "gave_up_above_ms").value_or(0) > 0;
}

struct Summary {
  std::string_view nonce;
  RecordsSummary summary;
  std::vector<TrainStepSample> samples;
  JsonValue hosts = JsonValue::array();
  std::string settings{};
  JsonValue software = JsonValue::object();  // other software that the start record names
  std::int64_t lines = 0;
  bool has_environment = false;
  bool awaits_code = false;  ///< the run's programs may change while it runs

  void add_start(const JsonValue& record) {
    if (summary.runner.empty()) summary.runner = text_of(record, "runner");
    if (const std::string version = text_of(record, "version"); !version.empty()) {
      const bool changed = version != summary.runner_version && version != "unknown" &&
          summary.runner_version != "unknown";
      if (!summary.runner_version.empty() && changed)
        note_doubt(fmt::format("its start records name two versions: '{}' and '{}'",
            one_line(summary.runner_version, 64), one_line(version, 64)));
      summary.runner_version = version;
    } else if (summary.runner_version.empty()) {
      summary.runner_version = "unknown";
    }
    if (const std::string profile = text_of(record, "profile"); !profile.empty())
      software["profile"] = profile;
    const std::string host = text_of(record, "host");
    if (!host.empty() && std::find(hosts.begin(), hosts.end(), host) == hosts.end()) {
      hosts.push_back(host);
    }
  }

  void add_train_step(const JsonValue& record) {
    const auto step = number_of(record, "step");
    const auto step_ms = number_of(record, "step_ms");
    if (!step || !step_ms || samples.size() >= most_samples) return;
    samples.push_back({static_cast<std::int32_t>(std::clamp(*step, 0.0, 2e9)), *step_ms,
        number_of(record, "loss").value_or(std::nan(""))});
  }

  void add_result(const JsonValue& record, std::string_view line) {
    if (summary.result) {  // the first one counts
      if (!summary.result->cut_short && !gave_up(record))
        note_doubt(contradiction_of(*summary.result, record));
      return;
    }
    if (const auto network = record.find("network");
        network != record.end() && network->is_object())
      summary.busbw_bytes_per_s =
          std::max(0.0, number_of(*network, "busbw_gb_per_s").value_or(0)) * 1e9;
    // A network probe has no metrics: a control needs none.
    if (std::string flaw = flaw_of(record); !flaw.empty()) return note_flaw(std::move(flaw), true);
    AddMeasurement measurement;
    for (const MetricInfo& metric : metric_table) {
      if (const auto value = number_of(record, metric.name)) {
        measurement.metrics.emplace(metric.name, *value);
      }
    }
    measurement.throttled = one_line(text_of(record, "throttled"), most_reasons);
    measurement.cut_short = gave_up(record);
    measurement.flops_model = text_of(record, "flops_model");
    measurement.detail = line;
    summary.own_work = {numbers_of<double>(record, "busy_ms_by_rank"),
        numbers_of<std::int32_t>(record, "stage_by_rank")};
    summary.result = std::move(measurement);
  }

  /// The node agent's record of the first rank; the first one counts.
  void add_environment(const JsonValue& record) {
    constexpr std::string_view prefix = "env.";
    if (has_environment) return;
    has_environment = true;
    summary.image_digest = text_of(record, "image_digest");
    JsonValue variables = JsonValue::object();
    for (const auto& [key, value] : record.items()) {
      if (!key.starts_with(prefix) || !value.is_string()) continue;
      const std::string name = key.substr(prefix.size());
      variables[name] = value;
      if (is_setting(name))
        settings += fmt::format(
            "{}{}={}", settings.empty() ? "" : " ", name, value.get_ref<const std::string&>());
    }
    if (!variables.empty())
      summary.environment = variables.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
  }

  void add_error(const JsonValue& record) {
    const auto row = runner_exit_class(text_of(record, "class"));
    if (!row || summary.error) return;
    summary.error = row->outcome;  // peer_lost has no outcome: the first cause is elsewhere
    if (summary.error) summary.error_message = text_of(record, "message");
  }

  /// The first one counts.
  void add_refusal(const JsonValue& record) {
    const auto row = runner_exit_class(text_of(record, "class"));
    if (!row || !row->outcome || summary.refusal) return;
    summary.refusal = row->outcome;
    summary.refusal_message = text_of(record, "message");
  }

  /// The first one counts.
  void note_doubt(std::string doubt) {
    if (summary.doubt.empty()) summary.doubt = std::move(doubt);
  }

  /// The first one counts, but one in a result of ours goes before all others.
  void note_flaw(std::string flaw, bool own) {
    if (summary.owns_flaw || (!own && !summary.flaw.empty())) return;
    summary.flaw = std::move(flaw);
    summary.owns_flaw = own;
  }

  void note_malformed(std::string_view line) {
    constexpr std::size_t most_shown = 60;
    const JsonValue record = line.size() > longest_line
        ? JsonValue()
        : JsonValue::parse(with_quoted_numbers(line), nullptr, false);
    if (record.is_object() && text_of(record, "type") == "result" &&
        text_of(record, "run_id") == nonce) {
      return note_flaw(flaw_of(record).empty()
              ? "The result record has NaN or Infinity, which are not valid JSON."
              : flaw_of(record),
          true);
    }
    note_flaw(
        fmt::format(
            "There is no result record; line {} of the records is not a record in JSON: '{}'.",
            lines, one_line(line, most_shown)),
        false);
  }

  void note_foreign(const JsonValue& record) {
    if (text_of(record, "type") != "result") return;
    const std::string given = text_of(record, "run_id");
    note_flaw(given.empty()
            ? std::string("The result record lacks run_id, the value of --run-id.")
            : fmt::format("The result record has the run_id '{}'; this attempt's --run-id is '{}'.",
                  one_line(given, 64), nonce),
        false);
  }

  void add_line(std::string_view line) {
    ++lines;
    const JsonValue record =
        line.size() > longest_line ? JsonValue() : JsonValue::parse(line, nullptr, false);
    if (!record.is_object() || text_of(record, "type").empty()) return note_malformed(line);
    if (text_of(record, "run_id") != nonce) return note_foreign(record);
    const std::string type = text_of(record, "type");
    if (type == "start") add_start(record);
    if (type == "train_step") add_train_step(record);
    if (type == "result") add_result(record, line);
    if (type == "environment") add_environment(record);
    if (type == "programs") awaits_code = true;
    if (type == "code") summary.code_hash = text_of(record, "code_hash");
    if (type == "error") add_error(record);
    if (type == "refusal") add_refusal(record);
  }
};

/// Optimizer states are made in the first train step, and CUDA graphs in the second: a peak of
/// fewer is no peak.
void believe_memory(AddMeasurement& result) {
  constexpr double full_steps = 2;
  const auto count = [&](std::string_view name) {
    const auto found = result.metrics.find(name);
    return found == result.metrics.end() ? 0 : found->second;
  };
  const bool is_told = result.metrics.contains("steps");
  if (!is_told || count("steps") + count("warmup") >= full_steps) return;
  std::erase_if(result.metrics, [](const auto& metric) {
    return metric.first.starts_with("peak_") && metric.first.ends_with("_bytes");
  });
}

}  // namespace

RecordsSummary summarise_records(std::string_view text, std::string_view nonce) {
  Summary reader{.nonce = nonce, .summary = {}, .samples = {}};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    // A last line without its newline was torn by a crash.
    if (end == std::string_view::npos) break;
    if (end > 0) reader.add_line(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  reader.summary.code_unknown =
      reader.awaits_code && reader.summary.code_hash.empty() && reader.summary.result;
  if (reader.summary.refusal || reader.summary.code_unknown) reader.summary.result.reset();
  if (reader.summary.result) {
    reader.note_doubt(outside_of_steps(*reader.summary.result, reader.samples));
    reader.summary.result->samples = std::move(reader.samples);
    reader.summary.result->runner_version = reader.summary.runner_version;
    reader.summary.result->settings = std::move(reader.settings);
    if (!reader.summary.doubt.empty()) reader.summary.result->mark = Mark::implausible;
    believe_memory(*reader.summary.result);
    reader.summary.result->software =
        reader.software.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
    reader.summary.result->hosts =
        reader.hosts.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
  }
  return std::move(reader.summary);
}

// Line by line, for an agent.

namespace {

using namespace json;

RecordType record_type(std::string_view word) {
  constexpr std::array<std::string_view, 6> words{
      "start", "phase", "train_step", "result", "error", "refusal"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<RecordType>(i);
  }
  return RecordType::other;
}

template <class T>
void read_optional(const Json& object, const char* key, T& value) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  T read{};
  if (read_value(*found, read)) value = std::move(read);
}

Timestamp read_time(const Json& object) {
  constexpr double microseconds = 1e6;
  constexpr double far_future_s = 1e11;  // larger numbers are no count of seconds
  double number = 0;
  read_optional(object, "t", number);
  if (number <= 0 || number > 1e18) return 0;
  return static_cast<Timestamp>(number < far_future_s ? number * microseconds : number);
}

}  // namespace

std::string encode_record(const WrittenRecord& record, std::string_view nonce, Timestamp t) {
  constexpr double microseconds = 1e6;
  constexpr double exact = 9007199254740992.0;  // whole numbers above it are not
  Json object{
      {"type", record.type}, {"run_id", nonce}, {"t", static_cast<double>(t) / microseconds}};
  for (const auto& [key, text] : record.texts)
    object[key] = text;
  for (const auto& [key, number] : record.numbers) {
    if (std::floor(number) == number && std::abs(number) < exact) {
      object[key] = static_cast<std::int64_t>(number);
    } else {
      object[key] = number;
    }
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Record> decode_record(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, longest_line));
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    return tl::unexpected(malformed(line, "key 'type'"));
  Record record;
  record.type = record_type(type->get_ref<const std::string&>());
  read_optional(object, "nonce", record.nonce);
  read_optional(object, "run_id", record.nonce);
  record.t = read_time(object);
  read_optional(object, "phase", record.phase);
  read_optional(object, "step", record.step);
  read_optional(object, "step_ms", record.step_ms);
  if (object.contains("timed")) read_optional(object, "timed", record.timed.emplace());
  read_optional(object, "class", record.error_class);
  read_optional(object, "message", record.message);
  return record;
}

bool has_result(std::string_view records, std::string_view nonce) {
  bool found = false;
  while (!records.empty()) {
    const std::size_t end = records.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = records.substr(0, end);
    records.remove_prefix(end + 1);
    if (line.find("\"result\"") == std::string_view::npos &&
        line.find("\"refusal\"") == std::string_view::npos)
      continue;
    const auto record = decode_record(line);
    if (!record || record->nonce != nonce) continue;
    if (record->type == RecordType::refusal) return false;
    found = found || record->type == RecordType::result;
  }
  return found;
}

}  // namespace shardsweep
