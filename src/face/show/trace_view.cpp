// SPDX-License-Identifier: Apache-2.0
#include "show/trace_view.hpp"

#include "show/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace shardsweep {

namespace {

/// Rows of a node, from the top.
enum class TraceLane : std::uint8_t { jobs, attempts, parts };

class Trace {
 public:
  Trace() { put("{{\"traceEvents\":[\n"); }
  void add(const std::string& node, TraceLane lane, const std::string& name, std::int64_t from,
      std::int64_t to, const std::string& arguments = "{}") {
    if (to <= from) return;
    next();
    put("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{},\"name\":",
        process_of(node), static_cast<int>(lane), from, to - from, arguments);
    append_json(out_, name);
    out_.push_back('}');
  }

  /// Ends the trace with the names of nodes and rows, and returns its text.
  std::string take() {
    for (const auto& [node, process] : processes_) {
      name_it("process_name", process, TraceLane::jobs, node);
      name_it("thread_name", process, TraceLane::jobs, "jobs");
      name_it("thread_name", process, TraceLane::attempts, "attempts");
      name_it("thread_name", process, TraceLane::parts, "start-up, train steps, teardown");
    }
    put("\n],\"displayTimeUnit\":\"ms\"}}\n");
    return fmt::to_string(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void next() {
    put("{}", first_ ? "" : ",\n");
    first_ = false;
  }
  void name_it(std::string_view kind, std::size_t process, TraceLane lane, std::string_view name) {
    next();
    put("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":", process,
        static_cast<int>(lane), kind);
    append_json(out_, name);
    put("}}}}");
  }
  std::size_t process_of(const std::string& node) {
    return processes_.try_emplace(node, processes_.size() + 1).first->second;
  }

  fmt::memory_buffer out_;
  std::map<std::string, std::size_t> processes_;
  bool first_ = true;
};

void add_attempt(Trace& trace, const TracedAttempt& attempt, Timestamp now) {
  const auto from = attempt.started_at;
  const auto to = attempt.ended_at > 0 ? attempt.ended_at : now;
  trace.add(attempt.node, TraceLane::attempts,
      fmt::format("{}.{} {}", attempt.trial, attempt.number, attempt.outcome), from, to);
  const auto result = attempt.result_at;
  if (result <= from || result > to) return;
  const auto steps = std::max(result - attempt.steps_us, from);
  trace.add(attempt.node, TraceLane::parts, "start-up", from, steps);
  trace.add(attempt.node, TraceLane::parts, "train steps", steps, result,
      fmt::format("{{\"steps\":{}}}", attempt.steps));
  trace.add(attempt.node, TraceLane::parts, "teardown", result, to);
}

}  // namespace

std::string trace_text(
    const std::vector<TracedJob>& jobs, const std::vector<TracedAttempt>& attempts, Timestamp now) {
  Trace trace;
  for (const TracedJob& job : jobs)
    trace.add(job.node, TraceLane::jobs, fmt::format("{} ({})", job.job, job.sweep), job.started_at,
        job.ended_at > 0 ? job.ended_at : now);
  for (const TracedAttempt& attempt : attempts)
    add_attempt(trace, attempt, now);
  return trace.take();
}

}  // namespace shardsweep
