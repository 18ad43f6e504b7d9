// SPDX-License-Identifier: Apache-2.0
#include "measurement/records.hpp"

#include "base/clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

namespace shardbench {

Records::Records(const std::string& file, std::string run_id, std::int64_t rank)
    : path_(file.empty() || rank == 0 ? file : file + "." + std::to_string(rank)),
      run_id_(std::move(run_id)),
      rank_(rank) {}

Records::~Records() {
  if (fd_ >= 0) ::close(fd_);
}

JsonObject Records::begin(std::string_view type) const {
  std::array<char, 40> time{};
  std::snprintf(time.data(), time.size(), "%.6f", unix_time_s());
  return JsonObject{}
      .text("type", type)
      .text("run_id", run_id_)
      .raw("t", time.data())
      .integer("rank", rank_);
}

bool Records::append(const std::string& line) {
  if (path_.empty()) return true;
  if (fd_ < 0) fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd_ >= 0 && ::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

void Records::write(const JsonObject& record) {
  (void)append(record.str() + "\n");
}

bool Records::write_durably(const JsonObject& record) {
  return append(record.str() + "\n") && (path_.empty() || ::fsync(fd_) == 0);
}

void Records::write_garbage() {
  std::string garbage = "{\"type\":\"result\",\"loss\":\n\n{]\n";
  garbage += std::string("\0\x01\xff\xfe", 4) + "\n" + std::string(100000, '{') + "\n";
  garbage += R"({"type":"result","run_id":"somebody-else","loss":0.0})"
             "\n";
  (void)append(garbage);
}

void Records::write_error(const Error& error, std::int64_t failed_rank) {
  JsonObject record = begin("error");
  record.text("class", error_class_name(error.kind)).text("message", error.message);
  if (failed_rank >= 0) record.integer("failed_rank", failed_rank);
  if (error.kind == ErrorClass::oom)
    record.text("memory_class", error.memory_class)
        .integer("bytes_requested", static_cast<std::int64_t>(error.bytes_requested))
        .integer("bytes_in_use", static_cast<std::int64_t>(error.bytes_in_use))
        .integer("limit", static_cast<std::int64_t>(error.limit));
  (void)write_durably(record);
}

}  // namespace shardbench
