// SPDX-License-Identifier: Apache-2.0
#include "node/recorder_file.hpp"

#include "machine/descriptor.hpp"
#include "text/characters.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::string_view magic = "SBREC03";
// Place in the header: magic, rank, world, pid and last number come before the time of the last
// beat.
constexpr std::size_t beat_offset = 40;
constexpr std::size_t beat_bytes = 8;
constexpr std::size_t largest_file = 64 << 10;
constexpr std::size_t longest_text = 400;

// FNV-1a, 64 bits: nobody attacks it, and an agent reads a few files a second.
constexpr std::uint64_t hash_start = 14695981039346656037ULL;
constexpr std::uint64_t hash_factor = 1099511628211ULL;

using PlainJson = nlohmann::json;

std::vector<std::int32_t> ranks_in(const PlainJson& object, const char* key) {
  std::vector<std::int32_t> ranks;
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return ranks;
  for (const PlainJson& rank : *list) {
    if (rank.is_number_integer()) ranks.push_back(rank.get<std::int32_t>());
  }
  return ranks;
}

std::string text_in(const PlainJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string()
      ? one_line(found->get_ref<const std::string&>(), longest_text)
      : "";
}

RecorderReading::Wait wait_in(const PlainJson& object) {
  RecorderReading::Wait wait;
  wait.group = text_in(object, "group");
  wait.operation = text_in(object, "operation");
  const auto sequence = object.find("sequence");
  if (sequence != object.end() && sequence->is_number_integer())
    wait.sequence = sequence->get<std::int64_t>();
  wait.waiting = ranks_in(object, "waiting");
  wait.never_came = ranks_in(object, "never_came");
  return wait;
}

}  // namespace

std::optional<std::uint64_t> RecorderFile::read() {
  // A fifo of that name must not block: nobody may ever write into it.
  if (!descriptor_.valid())
    descriptor_ = Descriptor(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor_.valid()) return std::nullopt;
  std::array<char, largest_file> bytes;
  const ssize_t got = ::pread(descriptor_.get(), bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (text.size() < beat_offset + beat_bytes || !text.starts_with(magic)) {
    descriptor_ = {};  // another file may take its name
    return std::nullopt;
  }
  std::uint64_t hash = hash_start;
  const auto add = [&](std::string_view part) {
    for (const char c : part)
      hash = (hash ^ static_cast<unsigned char>(c)) * hash_factor;
  };
  add(text.substr(0, beat_offset));
  add(text.substr(beat_offset + beat_bytes));
  return hash;
}

bool RecorderFile::has_moved() {
  const auto now = read();
  const bool moved = now && now != state_;
  if (now) state_ = now;
  return moved;
}

bool RecorderFiles::have_moved() {
  bool moved = false;
  for (auto& [rank, file] : files_)
    moved = file.has_moved() || moved;
  return moved;
}

bool RecorderFiles::any_is_there() const {
  return std::any_of(
      files_.begin(), files_.end(), [](const auto& one) { return one.second.is_there(); });
}

bool RecorderFiles::all_are_there() const {
  return any_is_there() && std::all_of(files_.begin(), files_.end(), [](const auto& one) {
    return one.second.is_there();
  });
}

Result<RecorderReading> decode_recorder_reading(std::string_view text) {
  const PlainJson object = PlainJson::parse(text, nullptr, false);
  if (!object.is_object())
    return fault(FaultKind::corrupt, "not a JSON object: '" + one_line(text, 60) + "'");
  RecorderReading reading;
  reading.guilty = ranks_in(object, "guilty");
  reading.why = text_in(object, "why");
  const auto waits = object.find("waits");
  if (waits == object.end() || !waits->is_array()) return reading;
  for (const PlainJson& wait : *waits) {
    if (wait.is_object()) reading.waits.push_back(wait_in(wait));
  }
  return reading;
}

}  // namespace shardsweep
