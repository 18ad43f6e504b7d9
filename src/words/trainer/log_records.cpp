// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_records.hpp"

#include "text/characters.hpp"
#include "trainer/trainers.hpp"
#include "trainer/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace shardsweep {
namespace {

Result<std::vector<std::string_view>> patterns_of(const TrainerRun& run) {
  std::vector<std::string_view> patterns(run.patterns.begin(), run.patterns.end());
  if (run.log.empty()) return patterns;
  const Trainer* trainer = find_trainer(run.log);
  if (trainer == nullptr)
    return fault(FaultKind::invalid_input, "no trainer is called {}", in_quotes(run.log));
  const auto own = log_patterns(run.log);
  patterns.insert(patterns.end(), own.begin(), own.end());
  return patterns;
}

void put(WrittenRecord& record, const char* key, std::optional<double> value) {
  if (value && std::isfinite(*value)) record.numbers[key] = *value;
}

}  // namespace

Result<LogRecords> LogRecords::make(const TrainerRun& run, std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const auto patterns, patterns_of(run));
  SHARDSWEEP_ASSIGN(LogReader reader, LogReader::make(patterns));
  LogRecords records(std::move(reader));
  records.alone_ = run.fake_world > 0;
  records.trainer_ = run.log.empty() ? nullptr : find_trainer(run.log);
  records.expected_ = {.gpus = run.fake_world > 0 ? run.fake_world : gpus,
      .dp = run.dp,
      .tp = run.tp,
      .pp = run.pp,
      .cp = run.cp,
      .seq_len = run.seq_len,
      .tokens_per_step = run.tokens_per_step,
      .vocab = run.vocab,
      .parameters = run.parameters,
      .warmup = run.warmup,
      .unprinted = records.trainer_ == nullptr ? 0 : records.trainer_->unprinted,
      // Reading times tell nothing until finish() knows how often the log was read.
      .look_s = std::numeric_limits<double>::infinity(),
      .steps = run.steps,
      .unchecked = run.unchecked,
      .axes = run.axes};
  return records;
}

Result<void> LogRecords::see_version(std::string_view line) {
  if (trainer_ == nullptr || !version_.empty()) return {};
  const auto found = version_in(*trainer_, line);
  if (!found) return {};
  version_ = *found;
  return check_found_version();
}

bool LogRecords::wants_version() const {
  const auto& unchecked = expected_.unchecked;
  return trainer_ != nullptr && !version_.empty() &&
      std::find(unchecked.begin(), unchecked.end(), "version") == unchecked.end();
}

Result<void> LogRecords::check_found_version() const {
  if (!wants_version()) return {};
  return check_version(*trainer_, version_);
}

std::string LogRecords::version_note() const {
  if (!wants_version() || !is_newer_than_tested(*trainer_, version_)) return {};
  return fmt::format(
      "Version {} of {} is newer than tested: the reader '{}' was tested with versions {} to {}.",
      in_quotes(version_), trainer_->title, trainer_->name, trainer_->from, trainer_->to);
}

std::string LogRecords::facts_text() const {
  std::string text = reader_.facts_text();
  if (!version_.empty()) text += fmt::format("{}{}\n", probe_mark, version_);
  return text;
}

Result<void> LogRecords::add_facts(std::string_view text) {
  reader_.add_facts(text);
  return see_version(text);
}

std::vector<WrittenRecord> LogRecords::read(std::string_view line, double now_s) {
  reader_.read(line, now_s);
  const LoggedStep* step = reader_.current();
  // Several lines may belong to one train step; the first one announces it.
  if (step == nullptr || !read_at_s_.try_emplace(step->iteration, now_s).second) return {};
  std::vector<WrittenRecord> records;
  if (read_at_s_.size() == 1) records.push_back({"phase", {{"phase", "train"}}, {}});
  WrittenRecord record{"train_step", {}, {{"step", static_cast<double>(step->iteration)}}};
  for (const auto* key : {"step_ms", "loss"}) {
    const auto found = step->values.find(key);
    if (found != step->values.end()) put(record, key, found->second.value);
  }
  records.push_back(std::move(record));
  return records;
}

std::int64_t LogRecords::left_out() const {
  if (read_at_s_.empty()) return 0;
  return left_out_before(read_at_s_.begin()->first, expected_.unprinted);
}

std::int64_t LogRecords::more_than_asked() const {
  return static_cast<std::int64_t>(reader_.steps()) + left_out() - expected_.warmup -
      expected_.steps;
}

void LogRecords::put_version(WrittenRecord& record, std::vector<std::string> notes) const {
  if (!version_.empty()) record.texts["trainer_version"] = version_;
  if (auto note = version_note(); !note.empty()) notes.insert(notes.begin(), std::move(note));
  if (!notes.empty()) record.texts["trainer_note"] = fmt::format("{}", fmt::join(notes, " "));
}

WrittenRecord LogRecords::result_of(
    const LogMeasurement& measured, std::vector<std::string> notes) const {
  WrittenRecord record{"result", {}, {}};
  put(record, "tokens_per_s_per_gpu", measured.tokens_per_s_per_gpu);
  put(record, "tokens_per_s", *measured.tokens_per_s_per_gpu * static_cast<double>(expected_.gpus));
  put(record, "train_step_ms", measured.train_step_ms);
  put(record, "train_step_ms_spread", measured.train_step_ms_spread);
  put(record, "tflops_per_gpu", measured.tflops_per_gpu);
  put(record, "peak_memory_bytes",
      measured.allocated_bytes ? measured.allocated_bytes : measured.reserved_bytes);
  put(record, "peak_allocated_bytes", measured.allocated_bytes);
  put(record, "peak_reserved_bytes", measured.reserved_bytes);
  put(record, "loss", measured.last_loss);
  put(record, "tokens_per_step", static_cast<double>(expected_.tokens_per_step));
  put(record, "steps", static_cast<double>(measured.steps));
  put(record, "warmup", static_cast<double>(expected_.warmup));
  put(record, "resolution", measured.resolution);
  put_version(record, std::move(notes));
  return record;
}

/// Mean time per train step, from the end of the warm-up to the last timed one.
std::optional<LogRecords::ReadTime> LogRecords::read_time(double look_s) const {
  const auto warmup =
      static_cast<std::size_t>(std::max<std::int64_t>(1, expected_.warmup - left_out()));
  if (read_at_s_.size() < warmup + 2 || expected_.tokens_per_step <= 0) return std::nullopt;
  const auto first = std::next(read_at_s_.begin(), static_cast<std::ptrdiff_t>(warmup) - 1);
  auto last = std::prev(read_at_s_.end());
  if (expected_.steps > 0 && read_at_s_.size() > warmup + static_cast<std::size_t>(expected_.steps))
    last = std::next(first, expected_.steps);
  const auto steps = std::distance(first, last);
  const double span_s = last->second - first->second;
  if (!(span_s > 0)) return ReadTime{0, steps, std::numeric_limits<double>::infinity(), 0};
  return ReadTime{1e3 * span_s / static_cast<double>(steps), steps, look_s / span_s, span_s};
}

/// Takes times of reading if a log tells none, or only coarser ones.
void LogRecords::time_by_reading(JudgedLog& judged, double look_s) const {
  constexpr double coarsest = 0.05;
  constexpr double coarse = 0.002;
  constexpr double agreement = 0.03;
  auto& to = judged.measurement;
  const bool printed = to.tokens_per_s_per_gpu.has_value();
  const auto read = read_time(look_s);
  if (!read ||
      (printed &&
          (to.resolution < coarse || read->resolution >= to.resolution || !to.train_step_ms)))
    return;
  if (!printed && !(read->resolution < coarsest)) {
    judged.notes.push_back(fmt::format(
        "The log has no step times, its lines are read every {:.1f} s, and all timed train steps "
        "took only {:.1f} s: print the time of a train step, or raise measure.steps.",
        look_s, read->span_s));
    return;
  }
  // The lines have more between them than train steps.
  if (printed &&
      std::abs(read->train_step_ms / *to.train_step_ms - 1) >
          agreement + to.resolution + read->resolution)
    return;
  to.train_step_ms = read->train_step_ms;
  to.steps = read->steps;
  to.resolution = read->resolution;
  to.tokens_per_s_per_gpu = static_cast<double>(expected_.tokens_per_step) /
      static_cast<double>(expected_.gpus) / (*to.train_step_ms * 1e-3);
}

bool LogRecords::knows_memory() const {
  return alone_ && reader_.steps() == 0 && reader_.knows_memory();
}

namespace {

void judge_only_facts(JudgedLog& judged, const TrainerLog& log, const ExpectedRun& expected) {
  judged.faults = judge_facts(log, expected);
  judged.will_repeat = !judged.faults.empty();
}

}  // namespace

/// A rank that runs alone: its losses mean nothing, and its train steps lack the other ranks'
/// parts.
WrittenRecord LogRecords::proof() const {
  ExpectedRun expected = expected_;
  expected.unchecked = {"first_loss", "parameters", "losses"};
  const TrainerLog log = reader_.finish();
  JudgedLog judged = judge_log(log, expected);
  if (log.steps.empty()) judge_only_facts(judged, log, expected);
  const LogMeasurement& measured = judged.measurement;
  const auto peak = measured.allocated_bytes ? measured.allocated_bytes : measured.reserved_bytes;
  if (!peak) judged.faults.emplace_back("The log has no peak memory.");
  if (!judged.faults.empty() || !check_found_version())
    return error_of("the log gives no peak memory that can be used", std::move(judged));
  WrittenRecord record{"result", {}, {{"proof", 1}}};
  put(record, "peak_memory_bytes", peak);
  put(record, "peak_allocated_bytes", measured.allocated_bytes);
  put(record, "peak_reserved_bytes", measured.reserved_bytes);
  put(record, "train_step_ms", measured.train_step_ms);
  put(record, "tokens_per_step", static_cast<double>(expected_.tokens_per_step));
  put_version(record);
  return record;
}

/// A failed check in an untested version may mean that its log has changed.
WrittenRecord LogRecords::error_of(std::string_view what, JudgedLog judged) const {
  std::vector<std::string>& faults = judged.faults;
  const auto known = check_found_version();
  const std::string newer = version_note();
  if (!known) faults.insert(faults.begin(), known.error().what);
  if (!newer.empty()) faults.insert(faults.begin(), newer);
  const bool refused = !known || (!newer.empty() && !judged.has_nan);
  const char* kind = refused ? "usage"
      : judged.will_repeat   ? "invalid_layout"
      : judged.has_nan       ? "nan"
                             : "internal";
  return {"error",
      {{"class", kind}, {"message", fmt::format("{}: {}", what, fmt::join(faults, " "))}}, {}};
}

std::optional<WrittenRecord> LogRecords::contradiction() const {
  if (alone_) return std::nullopt;
  ExpectedRun expected = expected_;
  expected.unchecked.emplace_back("count");
  const TrainerLog log = reader_.finish();
  JudgedLog judged;
  if (log.steps.empty()) {
    judge_only_facts(judged, log, expected);
  } else {
    judged = judge_log(log, expected);
  }
  if (judged.faults.empty() && check_found_version()) return std::nullopt;
  return error_of("its log is no measurement", std::move(judged));
}

WrittenRecord LogRecords::finish(double look_s) const {
  if (alone_) return proof();
  ExpectedRun expected = expected_;
  expected.look_s = look_s;
  JudgedLog judged = judge_log(reader_.finish(), expected);
  if (reader_.steps() == 0 && trainer_ != nullptr && !trainer_->advice.empty())
    judged.faults.push_back(
        fmt::format("{} prints each if you set {}.", trainer_->title, trainer_->advice));
  if (judged.faults.empty()) time_by_reading(judged, look_s);
  if (!judged.measurement.tokens_per_s_per_gpu)
    judged.faults.insert(judged.faults.end(), judged.notes.begin(), judged.notes.end());
  if (judged.faults.empty() && check_found_version())
    return result_of(judged.measurement, judged.notes);
  return error_of("its log is no measurement", std::move(judged));
}

}  // namespace shardsweep
