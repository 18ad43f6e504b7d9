// SPDX-License-Identifier: Apache-2.0
#include "measurement/recorder.hpp"

#include "base/clock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

namespace shardbench {
namespace {

constexpr std::string_view magic = "SBREC03";

template <std::size_t N>
void put(std::array<char, N>& field, std::string_view text) {
  field.fill('\0');
  std::copy_n(text.data(), std::min(text.size(), N - 1), field.data());
}

RecorderFile* map_file(const std::string& folder, i64 rank) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string path = folder + "/rank." + std::to_string(rank);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return nullptr;
  void* mapped = MAP_FAILED;
  // posix_fallocate, not ftruncate: a full disk is an error here, not a SIGBUS later.
  if (::posix_fallocate(fd, 0, sizeof(RecorderFile)) == 0)
    mapped = ::mmap(nullptr, sizeof(RecorderFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<RecorderFile*>(mapped);
}

/// Ends texts within their fields, whatever is in the file.
void end_texts(RecorderFile& file) {
  file.header.magic.back() = '\0';
  file.header.phase.back() = '\0';
  file.header.end.back() = '\0';
  file.header.run_id.back() = '\0';
  for (RecordedOperation& slot : file.slots) {
    slot.group.back() = '\0';
    slot.operation.back() = '\0';
  }
}

/// Groups can be told from it: degrees make up the world, and each axis has its place.
bool is_consistent(const RecorderHeader& h) {
  constexpr i64 most_ranks = i64{1} << 20;
  const auto& [dp, tp, pp, cp, ep, replicas, first, second, third, fourth] = h.layout;
  for (const i64 degree : {dp, tp, pp, cp, ep, replicas})
    if (degree < 1 || degree > most_ranks) return false;
  // Factor by factor, so that no product is too large.
  i64 world = 1;
  for (const i64 degree : {dp, tp, pp, cp})
    if ((world *= degree) > most_ranks) return false;
  if (world != h.world || h.rank < 0 || h.rank >= world) return false;
  if (dp * cp % ep != 0 || dp * cp % replicas != 0) return false;
  return std::set<i64>{first, second, third, fourth} == std::set<i64>{0, 1, 2, 3};
}

}  // namespace

FlightRecorder::FlightRecorder(
    const std::string& folder, const std::string& run_id, i64 rank, const Layout& layout) {
  if (folder.empty()) return;
  file_ = map_file(folder, rank);
  if (file_ == nullptr) return;
  RecorderHeader& h = file_->header;
  h = {};
  h.rank = rank;
  h.world = layout.world();
  h.pid = ::getpid();
  h.layout = {layout.dp, layout.tp, layout.pp, layout.cp, layout.ep, layout.dp_replicate,
      static_cast<i64>(layout.rank_order[0]), static_cast<i64>(layout.rank_order[1]),
      static_cast<i64>(layout.rank_order[2]), static_cast<i64>(layout.rank_order[3])};
  put(h.run_id, run_id);
  beat();
  put(h.magic, magic);
}

FlightRecorder::~FlightRecorder() {
  if (file_ != nullptr) ::munmap(file_, sizeof(RecorderFile));
}

void FlightRecorder::phase(const char* name) {
  if (file_ != nullptr) put(file_->header.phase, name);
}

u64 FlightRecorder::entered(
    const Group& group, Operation operation, u64 sequence, i64 bytes, i64 peer) {
  if (file_ == nullptr) return 0;
  const u64 number = ++last_number_;
  RecordedOperation& slot = file_->slots[number % recorded_slots];
  slot.number = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.sequence = sequence;
  slot.group_id = group.id;
  slot.bytes = bytes;
  slot.peer = peer;
  slot.entered_s = unix_time_s();
  slot.waiting_s = 0;
  slot.left_s = 0;
  put(slot.group, group.name);
  put(slot.operation, operation_name(operation));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.number = number;
  file_->header.last_number = number;
  return number;
}

void FlightRecorder::waiting(u64 number) {
  if (file_ == nullptr || number == 0) return;
  RecordedOperation& slot = file_->slots[number % recorded_slots];
  if (slot.number == number) slot.waiting_s = unix_time_s();
}

void FlightRecorder::left(u64 number) {
  if (file_ == nullptr || number == 0) return;
  RecordedOperation& slot = file_->slots[number % recorded_slots];
  if (slot.number == number) slot.left_s = unix_time_s();
}

void FlightRecorder::beat() {
  if (file_ != nullptr) file_->header.beat_s = unix_time_s();
}

void FlightRecorder::ended(std::string_view how, i64 failed_rank) {
  if (file_ == nullptr) return;
  file_->header.failed_rank = failed_rank;
  put(file_->header.end, how);
}

std::optional<RecorderFile> read_recorder_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  RecorderFile file;
  if (!in.read(reinterpret_cast<char*>(&file), sizeof file)) return std::nullopt;
  end_texts(file);
  if (std::string_view(file.header.magic.data()) != magic) return std::nullopt;
  if (!is_consistent(file.header)) return std::nullopt;
  return file;
}

}  // namespace shardbench
