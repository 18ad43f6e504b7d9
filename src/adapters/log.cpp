// SPDX-License-Identifier: Apache-2.0
// The log on standard error (for a daemon: its log file), through spdlog.
#include <shardsweep/log.hpp>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace shardsweep {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_logger_st("shardsweep");
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

}  // namespace shardsweep
