// SPDX-License-Identifier: Apache-2.0
#include "node/inspection.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

namespace shardsweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_threads = 64;
constexpr std::size_t most_text = 8192;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::string text(most_text, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// Value after "Name:" in /proc/PID/status, without leading blanks.
std::string_view status_value(std::string_view status, std::string_view name) {
  const std::size_t at = status.find(name);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = status.find_first_not_of(" \t", at + name.size());
  if (begin == std::string_view::npos) return {};
  return status.substr(begin, status.find('\n', begin) - begin);
}

bool catches(std::string_view status, int signal) {
  const std::string_view mask = status_value(status, "\nSigCgt:");
  std::uint64_t bits = 0;
  (void)std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  return ((bits >> (signal - 1)) & 1U) != 0;
}

std::int64_t resident_bytes(std::string_view status) {
  const std::string_view value = status_value(status, "\nVmRSS:");
  std::int64_t kib = 0;
  (void)std::from_chars(value.data(), value.data() + value.size(), kib);
  return kib * 1024;
}

std::vector<ThreadState> threads_of(const std::string& folder) {
  std::vector<ThreadState> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder + "/task", error), end;
       !error && it != end && threads.size() < most_threads; it.increment(error)) {
    const std::string tid = it->path().filename().string();
    ThreadState thread;
    (void)std::from_chars(tid.data(), tid.data() + tid.size(), thread.tid);
    const std::string status = text_of(it->path().string() + "/status");
    const std::string_view state = status_value(status, "\nState:");
    if (!state.empty()) thread.state = state.front();
    thread.waits_in = text_of(it->path().string() + "/wchan");
    if (thread.waits_in == "0") thread.waits_in.clear();
    threads.push_back(std::move(thread));
  }
  return threads;
}

Json json_of(const ProcessState& seen) {
  Json threads = Json::array();
  for (const ThreadState& thread : seen.threads)
    threads.push_back({{"tid", thread.tid}, {"state", std::string(1, thread.state)},
        {"waits_in", thread.waits_in}});
  return {{"pid", seen.process.pid}, {"parent", seen.parent}, {"command", seen.process.cmdline},
      {"state", std::string(1, seen.state)}, {"resident_bytes", seen.resident_bytes},
      {"kernel_stack", seen.kernel_stack}, {"threads", std::move(threads)}};
}

Json json_of(const GpuState& gpu) {
  Json processes = Json::array();
  for (const GpuProcess& process : gpu.processes) {
    Json one{{"pid", process.pid}};
    if (process.bytes) one["bytes"] = *process.bytes;
    processes.push_back(std::move(one));
  }
  Json whole{{"gpu", gpu.index}};
  if (gpu.identity) {
    whole["name"] = gpu.identity->name;
    whole["uuid"] = gpu.identity->uuid;
  }
  if (gpu.memory) {
    whole["used_bytes"] = gpu.memory->used_bytes;
    whole["total_bytes"] = gpu.memory->total_bytes;
  }
  whole["processes"] = std::move(processes);
  if (gpu.health.uncorrected_errors) whole["uncorrected_errors"] = *gpu.health.uncorrected_errors;
  if (gpu.health.throttled) whole["throttled"] = throttle_words(*gpu.health.throttled);
  if (!gpu.fault.empty()) whole["fault"] = gpu.fault;
  return whole;
}

}  // namespace

std::string encode(const ProcessEntry& process, bool ended) {
  const Json line{{"pid", process.pid}, {"cmdline", process.cmdline}, {"ended", ended}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProcessState inspect(pid_t pid) {
  ProcessState seen;
  seen.process.pid = pid;
  const auto stat = process_stat(pid);
  if (!stat) return seen;
  const std::string folder = "/proc/" + std::to_string(pid);
  seen.process.start = stat->start;
  seen.process.cmdline = process_cmdline(pid);
  seen.parent = stat->parent;
  seen.state = stat->state;
  const std::string status = text_of(folder + "/status");
  seen.resident_bytes = resident_bytes(status);
  seen.catches_quit = catches(status, SIGQUIT);
  seen.kernel_stack = text_of(folder + "/stack");
  seen.threads = threads_of(folder);
  return seen;
}

std::string encode(const NodeEvidence& evidence) {
  Json ranks = Json::array();
  for (const auto& rank : evidence.ranks) {
    Json one = json_of(rank.state);
    one["rank"] = rank.rank;
    one["last_line"] = rank.last_line;
    ranks.push_back(std::move(one));
  }
  Json others = Json::array();
  for (const ProcessState& process : evidence.others)
    others.push_back(json_of(process));
  Json gpus = Json::array();
  for (const GpuState& gpu : evidence.gpus)
    gpus.push_back(json_of(gpu));
  const Json whole{{"node", evidence.node}, {"attempt", evidence.attempt}, {"why", evidence.why},
      {"still_s", evidence.still_s}, {"ranks", std::move(ranks)}, {"others", std::move(others)},
      {"gpus", std::move(gpus)}};
  return whole.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsweep
