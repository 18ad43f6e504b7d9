// SPDX-License-Identifier: Apache-2.0
// Conclusions, strongest evidence first: a rank that reported an error of its own; one that
// left without a word; one that never came to record; one whose process shows no life; one that
// others wait for and that waits for nobody.
#include "measurement/recorder_report.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "parallel/groups.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace shardbench {
namespace {

// Ranks beat several times a second; this is well above what a loaded machine delays a beat.
constexpr double lifeless_s = 1.0;

Layout layout_of(const RecorderHeader& h) {
  Layout layout;
  layout.dp = h.layout[0];
  layout.tp = h.layout[1];
  layout.pp = h.layout[2];
  layout.cp = h.layout[3];
  layout.ep = h.layout[4];
  layout.dp_replicate = h.layout[5];
  for (std::size_t i = 0; i < layout.rank_order.size(); ++i)
    layout.rank_order[i] = static_cast<Axis>(h.layout[6 + i]);
  return layout;
}

std::string_view text(const char* field) {
  return field;
}

using Place = std::tuple<u64, i64, std::string>;  // group, peer, operation

/// Newest sequence number that a rank has entered, by group; messages by direction.
std::map<Place, u64> newest_entered(const RecorderFile& file) {
  std::map<Place, u64> newest;
  for (const RecordedOperation& slot : file.slots) {
    if (slot.number == 0) continue;
    const Place place{slot.group_id, slot.peer, slot.peer < 0 ? "" : slot.operation.data()};
    u64& at = newest[place];
    at = std::max(at, slot.sequence + 1);
  }
  return newest;
}

class Analysis {
 public:
  explicit Analysis(RecorderReport& report) : report_(report) {
    for (const RecorderFile& file : report.ranks)
      entered_[file.header.rank] = newest_entered(file);
  }

  void find_waits() {
    for (const RecorderFile& file : report_.ranks)
      for (const RecordedOperation& slot : file.slots)
        if (slot.number != 0 && slot.waiting_s != 0 && slot.left_s == 0) add_wait(file, slot);
  }

  void find_guilty() {
    if (name_if("reported an error of its own", [](const RecorderFile& f) {
          const std::string_view end = text(f.header.end.data());
          return !end.empty() && end != "ok" && end != "peer_lost" && end != "timeout";
        }))
      return;
    if (somebody([](std::string_view end) { return !end.empty() && end != "ok"; })) {
      if (name_if("ended without an error message, or is stopped",
              [](const auto& f) { return f.header.end[0] == '\0'; }))
        return;
      if (name_missing()) return;
    }
    const double newest_s = newest_time_s();
    if (name_if("shows no sign of life", [newest_s](const RecorderFile& f) {
          return f.header.end[0] == '\0' && newest_s - f.header.beat_s > lifeless_s;
        }))
      return;
    name_awaited();
  }

 private:
  template <typename Condition>
  bool name_if(const char* why, Condition condition) {
    for (const RecorderFile& file : report_.ranks)
      if (condition(file)) report_.guilty.push_back(file.header.rank);
    if (!report_.guilty.empty()) report_.why = why;
    return !report_.guilty.empty();
  }

  template <typename Condition>
  bool somebody(Condition ended_so) const {
    return std::any_of(report_.ranks.begin(), report_.ranks.end(),
        [&](const RecorderFile& f) { return ended_so(text(f.header.end.data())); });
  }

  bool name_missing() {
    report_.guilty = report_.missing;
    if (!report_.guilty.empty()) report_.why = "never began to record";
    return !report_.guilty.empty();
  }

  /// Time up to which silence counts. While all ranks stand still together, that is the last beat,
  /// so that no rank is blamed; once a rank is through, the others should follow at once.
  double newest_time_s() const {
    double newest = somebody([](std::string_view end) { return end == "ok"; }) ? unix_time_s() : 0;
    for (const RecorderFile& f : report_.ranks)
      newest = std::max(newest, f.header.beat_s);
    return newest;
  }

  void name_awaited() {
    std::set<i64> waiting;
    std::set<i64> awaited;
    for (const Wait& wait : report_.waits) {
      waiting.insert(wait.waiting.begin(), wait.waiting.end());
      awaited.insert(wait.never_came.begin(), wait.never_came.end());
    }
    for (const i64 rank : awaited)
      if (waiting.count(rank) == 0) report_.guilty.push_back(rank);
    if (!report_.guilty.empty()) report_.why = "other ranks wait for it, and it waits for no rank";
  }

  bool has_entered(i64 rank, const RecordedOperation& slot, i64 asker) const {
    const auto file = entered_.find(rank);
    if (file == entered_.end()) return false;
    const bool message = slot.peer >= 0;
    const bool receives = text(slot.operation.data()) == "receive";
    const Place place{
        slot.group_id, message ? asker : -1, message ? (receives ? "send" : "receive") : ""};
    const auto newest = file->second.find(place);
    return newest != file->second.end() && newest->second > slot.sequence;
  }

  void add_wait(const RecorderFile& file, const RecordedOperation& slot) {
    const i64 rank = file.header.rank;
    const bool message = slot.peer >= 0;
    const auto key = std::make_tuple(slot.group_id, slot.sequence, message ? rank : -1);
    const auto [known, fresh] = wait_of_.try_emplace(key, report_.waits.size());
    if (!fresh) {
      report_.waits[known->second].waiting.push_back(rank);
      return;
    }
    const std::vector<i64> members = message
        ? std::vector<i64>{slot.peer}
        : members_of(layout_of(file.header), rank, slot.group.data());
    Wait wait{slot.group.data(), slot.operation.data(), slot.sequence, {rank}, {}};
    for (const i64 member : members)
      if (member != rank && !has_entered(member, slot, rank)) wait.never_came.push_back(member);
    report_.waits.push_back(std::move(wait));
  }

  RecorderReport& report_;
  std::map<i64, std::map<Place, u64>> entered_;
  std::map<std::tuple<u64, u64, i64>, std::size_t> wait_of_;
};

std::string numbers_json(const std::vector<i64>& numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const i64 number : numbers)
    texts.push_back(std::to_string(number));
  return json_array(texts);
}

std::string rank_json(const RecorderFile& file) {
  const RecorderHeader& h = file.header;
  JsonObject object;
  object.integer("rank", h.rank)
      .integer("pid", h.pid)
      .text("phase", h.phase.data())
      .text("end", h.end.data())
      .integer("failed_rank", h.failed_rank)
      .integer("operations", static_cast<i64>(h.last_number))
      .number("beat", h.beat_s);
  const RecordedOperation& last = file.slots[h.last_number % recorded_slots];
  if (last.number != 0)
    object.raw("last",
        JsonObject{}
            .text("group", last.group.data())
            .text("operation", last.operation.data())
            .integer("sequence", static_cast<i64>(last.sequence))
            .integer("bytes", last.bytes)
            .boolean("left", last.left_s != 0)
            .str());
  return object.str();
}

}  // namespace

RecorderReport read_recorders(const std::string& folder) {
  RecorderReport report;
  i64 world = 1;
  for (i64 rank = 0; rank < world; ++rank) {
    const auto file = read_recorder_file(folder + "/rank." + std::to_string(rank));
    if (file) {
      world = std::max(world, file->header.world);
      report.ranks.push_back(*file);
    } else {
      report.missing.push_back(rank);
      // The world's size is known from any rank: if rank 0 has no file, look a little further.
      if (report.ranks.empty() && rank < 8) ++world;
    }
  }
  report.missing.erase(std::remove_if(report.missing.begin(), report.missing.end(),
                           [&](i64 rank) {
                             return report.ranks.empty() ||
                                 rank >= report.ranks.front().header.world;
                           }),
      report.missing.end());
  Analysis analysis(report);
  analysis.find_waits();
  analysis.find_guilty();
  return report;
}

std::string recorder_report_json(const RecorderReport& report) {
  std::vector<std::string> ranks;
  for (const RecorderFile& file : report.ranks)
    ranks.push_back(rank_json(file));
  std::vector<std::string> waits;
  for (const Wait& wait : report.waits)
    waits.push_back(JsonObject{}
                        .text("group", wait.group)
                        .text("operation", wait.operation)
                        .integer("sequence", static_cast<i64>(wait.sequence))
                        .raw("waiting", numbers_json(wait.waiting))
                        .raw("never_came", numbers_json(wait.never_came))
                        .str());
  return JsonObject{}
      .raw("guilty", numbers_json(report.guilty))
      .text("why", report.why)
      .raw("missing", numbers_json(report.missing))
      .raw("waits", json_array(waits))
      .raw("ranks", json_array(ranks))
      .str();
}

}  // namespace shardbench
