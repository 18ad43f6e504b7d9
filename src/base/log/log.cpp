// SPDX-License-Identifier: Apache-2.0
// The log on standard error (for a daemon: its log file), through spdlog.
#include <shardsweep/log.hpp>

#include <spdlog/sinks/dup_filter_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <utility>

namespace shardsweep {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    // Retries fail with the same words: log them once a minute.
    auto filter = std::make_shared<spdlog::sinks::dup_filter_sink_st>(std::chrono::minutes(1));
    filter->add_sink(std::make_shared<spdlog::sinks::stderr_sink_st>());
    auto made = std::make_shared<spdlog::logger>("shardsweep", std::move(filter));
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

}  // namespace

void log_info(std::string_view text) {
  logger().info("{}", text);
}
void log_warning(std::string_view text) {
  logger().warn("{}", text);
}
void log_error(std::string_view text) {
  logger().error("{}", text);
}

void log_warnings_alone() {
  logger().set_level(spdlog::level::warn);
}

}  // namespace shardsweep
