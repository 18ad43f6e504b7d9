// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/settings.hpp"

#include "text/pieces.hpp"

#include <charconv>

namespace shardsweep::slurm {
namespace {

/// "10 sec", "1001": the number it begins with.
template <class Number>
void read_number(std::string_view value, Number& into) {
  std::int64_t number = 0;
  if (std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc()) {
    into = static_cast<Number>(number);
  }
}

void read_setting(std::string_view key, std::string_view value, Settings& settings) {
  if (key == "SLURM_VERSION") settings.version = value;
  if (key == "ClusterName") settings.cluster = value;
  if (key == "AccountingStorageType") {
    settings.accounting = value == "accounting_storage/slurmdbd";
  }
  if (key == "MessageTimeout") read_number(value, settings.message_timeout_s);
  if (key == "MinJobAge") read_number(value, settings.min_job_age_s);
  if (key == "SlurmdTimeout") read_number(value, settings.slurmd_timeout_s);
  if (key == "KillWait") read_number(value, settings.kill_wait_s);
  if (key == "MaxArraySize") read_number(value, settings.max_array_size);
  if (key == "MaxJobCount") read_number(value, settings.max_jobs);
}

}  // namespace

Result<Settings> parse_settings(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    read_setting(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)), settings);
  }
  if (settings.version.empty()) {
    return fault(FaultKind::unavailable, "'scontrol show config' names no SLURM_VERSION");
  }
  return settings;
}

}  // namespace shardsweep::slurm
