// SPDX-License-Identifier: Apache-2.0
// Records: one JSON object per line, each appended with a single write. Rank 0 writes FILE,
// rank k writes FILE.k, and only when it has something to say.
#pragma once

#include "base/error.hpp"
#include "base/json.hpp"

#include <string>

namespace shardbench {

class Records {
 public:
  /// `file` empty: nothing is written.
  Records(const std::string& file, std::string run_id, std::int64_t rank);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// Starts a record: type, run_id, t (Unix seconds) and rank are in it.
  JsonObject begin(std::string_view type) const;
  void write(const JsonObject& record);
  /// Writes a record and syncs it to disk; false if that failed.
  bool write_durably(const JsonObject& record);
  /// Writes garbage as a dying file system or a stray print leaves it: for --fault.
  void write_garbage();
  void write_error(const Error& error, std::int64_t failed_rank);

 private:
  bool append(const std::string& line);

  std::string path_;
  std::string run_id_;
  std::int64_t rank_;
  int fd_ = -1;
};

}  // namespace shardbench
