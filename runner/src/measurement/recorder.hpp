// SPDX-License-Identifier: Apache-2.0
// The flight recorder: each rank's last operations in a small memory-mapped file, which
// survives kill -9 of its writer.
//
// The file is written in place without locks: a slot's number is written last, so that a reader
// meets a torn slot at most where the writer stands.
#pragma once

#include "communication/communicator.hpp"
#include "parallel/layout.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace shardbench {

constexpr std::size_t recorded_slots = 64;

/// One operation. Part of the file's format: never change without a new magic.
struct RecordedOperation {
  u64 number = 0;    // counted from 1 by the rank; 0: empty slot
  u64 sequence = 0;  // number within the group; for messages, within the direction between two
                     // ranks
  u64 group_id = 0;
  i64 bytes = 0;
  i64 peer = -1;         // rank of the other side of a message; -1 for collectives
  double entered_s = 0;  // Unix time
  double waiting_s = 0;  // time since which the rank waits for its end; 0: not yet
  double left_s = 0;     // 0: not yet
  std::array<char, 16> group{};
  std::array<char, 16> operation{};
};

struct RecorderHeader {
  std::array<char, 8> magic{};
  i64 rank = 0;
  i64 world = 0;
  i64 pid = 0;
  u64 last_number = 0;
  double beat_s = 0;  // Unix time of the last sign of life of the process
  i64 failed_rank = -1;
  std::array<char, 16> phase{};
  std::array<char, 16> end{};  // empty while running; "ok" or an error class
  std::array<char, 136> run_id{};
  // Facts from which a reader derives the members of a group: dp, tp, pp, cp, ep, dp_replicate, and
  // the four axes of the rank order.
  std::array<i64, 10> layout{};
};

struct RecorderFile {
  RecorderHeader header;
  std::array<RecordedOperation, recorded_slots> slots;
};

class FlightRecorder {
 public:
  /// Maps FOLDER/rank.K, made anew; records nothing when `folder` is empty or can't be written.
  FlightRecorder(
      const std::string& folder, const std::string& run_id, i64 rank, const Layout& layout);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void phase(const char* name);
  /// Returns the number to give to left(). `group` has at least the name, id.
  u64 entered(const Group& group, Operation operation, u64 sequence, i64 bytes, i64 peer);
  void waiting(u64 number);
  void left(u64 number);
  /// A sign of life; may be called from another thread.
  void beat();
  void ended(std::string_view how, i64 failed_rank);

 private:
  RecorderFile* file_ = nullptr;
  u64 last_number_ = 0;
};

/// A rank's file as read; nothing when it is none.
std::optional<RecorderFile> read_recorder_file(const std::string& path);

}  // namespace shardbench
