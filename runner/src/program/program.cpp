// SPDX-License-Identifier: Apache-2.0
#include "program/program.hpp"

#include "base/version.hpp"
#include "measurement/benchmark.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/microbench.hpp"
#include "measurement/profile.hpp"
#include "measurement/recorder_report.hpp"
#include "measurement/records.hpp"
#include "program/rules.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace shardbench {
namespace {

int refuse(const Options& options, const Error& error) {
  std::fprintf(stderr, "shardbench: %s\n", error.message.c_str());
  if (!options.records.empty())
    Records(options.records, options.run_id, options.rank).write_error(error, -1);
  return exit_code(error.kind);
}

const char* environment(const char* name) {
  return std::getenv(name);
}

}  // namespace

int run_program(int argc, char** argv, const Platforms& platforms) {
  Options defaults;
  defaults.device = platforms.front().device;
  defaults.dtype = platforms.front().dtypes.front();
  const ParsedOptions parsed =
      parse_options({argv + 1, argv + argc}, environment, std::move(defaults));
  const Options& options = parsed.options;
  if (parsed.error) return refuse(options, *parsed.error);
  switch (options.command) {
    case Command::help:
      std::fputs(help_text().c_str(), stdout);
      return 0;
    case Command::version:
      std::printf("shardbench %s\n", version);
      return 0;
    case Command::capabilities:
      std::puts(capabilities_json(platforms, *find_profile(options.profile)).c_str());
      return 0;
    case Command::run:
      break;
  }
  if (!options.read_recorder.empty()) {
    std::puts(recorder_report_json(read_recorders(options.read_recorder)).c_str());
    return 0;
  }
  if (const auto error = refusal(options, platforms)) return refuse(options, *error);
  if (options.device == "meta") {
    std::puts(meta_json(options).c_str());
    return 0;
  }
  const PlatformKind& platform = *find_platform(platforms, options.device);
  // Where records are written, the blocks are timed within a run, whose result they stand in.
  if (options.microbench && options.records.empty())
    run_microbench(options, platform);
  else
    run_benchmark(options, platform);
  return 0;
}

}  // namespace shardbench
