// SPDX-License-Identifier: Apache-2.0
// The file of troubles: one JSON object, padded with spaces to a fixed size. Its first and last
// member carry the same number: a reader that sees two of them has met a write half-way.
#include "machine/checked_folder.hpp"
#include "text/characters.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/storage.hpp>
#include <shardsweep/trouble.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::json;

constexpr std::size_t file_bytes = std::size_t{16} * 1024;
constexpr std::size_t most_troubles = 24;
constexpr std::size_t longest_text = 400;
// A daemon on another host, whose lock is not seen here, writes every 5 s while it has trouble.
constexpr Timestamp fresh_us = 20'000'000;

std::string shortened(const std::string& text) {
  return one_line(text, longest_text);
}

Json to_json(const Trouble& one) {
  return Json{{"kind", name(one.kind)}, {"where", shortened(one.where)},
      {"detail", shortened(one.detail)}, {"since", one.since}, {"times", one.times},
      {"jobs", one.jobs}};
}

std::optional<Trouble> trouble_from(const Json& json) {
  const auto word = json.at("kind").get<std::string>();
  const auto* const found = std::find(trouble_words.begin(), trouble_words.end(), word);
  if (found == trouble_words.end()) return std::nullopt;  // a word of a newer version
  return Trouble{static_cast<TroubleKind>(found - trouble_words.begin()),
      json.at("where").get<std::string>(), json.at("detail").get<std::string>(),
      json.at("since").get<Timestamp>(), json.at("times").get<std::int32_t>(),
      json.at("jobs").get<std::int32_t>()};
}

struct TroubleList {
  Timestamp at = 0;
  std::vector<Trouble> all;
};

/// Empty if the file is missing or half written.
std::optional<TroubleList> parse(const std::string& content) {
  try {
    const Json json = Json::parse(content);
    if (json.at("a") != json.at("z")) return std::nullopt;
    TroubleList written{json.at("at").get<Timestamp>(), {}};
    for (const Json& one : json.at("troubles")) {
      if (auto trouble = trouble_from(one)) written.all.push_back(std::move(*trouble));
    }
    return written;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::vector<Trouble> told_by_daemon(const Home& home) {
  constexpr int tries = 3;
  for (int i = 0; i < tries; ++i) {
    const auto content = read_own_file(home.trouble(), file_bytes);
    if (!content) return {};
    const auto written = parse(*content);
    if (!written) continue;
    const bool lives = SystemClock().now() - written->at < fresh_us || lock_holder(home.lock());
    return lives ? written->all : std::vector<Trouble>{};
  }
  return {};
}

TroubleKind kind_of(StorageProblem problem) {
  return problem == StorageProblem::read_only ? TroubleKind::read_only : TroubleKind::disk_full;
}

/// Readers of somebody else's database need no permission to write.
bool is_owner(const std::filesystem::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

std::optional<Trouble> seen_from_here(const std::filesystem::path& folder) {
  const auto seen = look_at_storage(folder);
  const bool clear =
      seen && (seen->problem == StorageProblem::full || seen->problem == StorageProblem::read_only);
  if (clear) return Trouble{kind_of(seen->problem), folder.string(), seen->detail, 0, 0, 0};
  if (!seen && is_owner(folder) && ::access(folder.c_str(), W_OK | X_OK) != 0)
    return Trouble{TroubleKind::no_permission, folder.string(), std::strerror(errno), 0, 0, 0};
  if (auto left = little_left(folder); left && is_owner(folder))
    return Trouble{TroubleKind::nearly_full, folder.string(), *std::move(left), 0, 0, 0};
  return std::nullopt;
}

std::tm local_time(Timestamp at) {
  const auto seconds = static_cast<std::time_t>(at / 1'000'000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return local;
}

/// " since 14:03", with the date where it was not today.
std::string since(Timestamp at) {
  if (at == 0) return "";
  const std::tm then = local_time(at);
  const std::tm now = local_time(SystemClock().now());
  const bool today = then.tm_year == now.tm_year && then.tm_yday == now.tm_yday;
  return today ? fmt::format(" since {:%H:%M}", then)
               : fmt::format(" since {:%Y-%m-%d %H:%M}", then);
}

std::string in_brackets(const std::string& detail) {
  const bool says_nothing_new = detail.empty() || detail == std::strerror(ENOSPC);
  return says_nothing_new ? "" : fmt::format(" ({})", detail);
}

std::string counted(std::int32_t count, const char* what) {
  return fmt::format("{} {}{}", std::max(count, 1), what, count > 1 ? "s" : "");
}

/// Slurm's words without a full stop: the sentence has its own.
std::string words(const std::string& detail) {
  std::string said = detail;
  while (!said.empty() && (said.back() == '.' || said.back() == ' ' || said.back() == '\n'))
    said.pop_back();
  return said;
}

std::string scheduler_text(const Trouble& one) {
  const std::string when = since(one.since);
  const std::string said = words(one.detail);
  if (one.where == "local")
    return fmt::format("This machine's state cannot be read{}: {}.", when, said);
  const std::size_t space = one.where.find(' ');
  const std::string who = space == std::string::npos
      ? "Slurm"
      : fmt::format("slurmrestd at {}", one.where.substr(space + 1));
  const bool token = said.find("401") != std::string::npos ||
      said.find("uthentication") != std::string::npos || said.find("JWT") != std::string::npos;
  return fmt::format("{} has not answered{}: {}. Running jobs go on; {}", who, when, said,
      token ? "renew the token, and the sweep continues by itself." : "the daemon keeps asking.");
}

std::string storage_text(const Trouble& one) {
  // A daemon that has given up meanwhile is started by any command.
  constexpr const char* goes_on =
      "and the sweep goes on. `shardsweep resume` starts a daemon where none runs.";
  const std::string when = since(one.since);
  switch (one.kind) {
    case TroubleKind::disk_full:
      return fmt::format("The disk of {} is full{}: nothing can be stored{}. Free some {}, {}",
          one.where, in_brackets(one.detail), when,
          one.detail.find("inodes") != std::string::npos ? "files" : "space", goes_on);
    case TroubleKind::read_only:
      return fmt::format("{} is read-only: nothing can be stored{}. Make it writable, {}",
          one.where, when, goes_on);
    case TroubleKind::no_permission:
      return fmt::format("{} can't be written{}: {}. Give yourself the permission again, {}",
          one.where, when, words(one.detail), goes_on);
    case TroubleKind::folder_gone:
      return fmt::format(
          "The folder {} was deleted, moved or mounted again{}. Put it back, or submit the "
          "sweep again.",
          one.where, when);
    default:
      return fmt::format(
          "{} can't be written{}: {}. When the disk works again, the sweep goes "
          "on by itself.",
          one.where, when, words(one.detail));
  }
}

}  // namespace

std::string text(const Trouble& one) {
  const std::string when = since(one.since);
  const std::string said = words(one.detail);
  switch (one.kind) {
    case TroubleKind::database:
      return fmt::format(
          "The database {} can't be written{}: {}. The daemon tries again by "
          "itself.",
          one.where, when, said);
    case TroubleKind::requests:
      return fmt::format("Commands can't be answered{}: {} can't be written.", when, one.where);
    case TroubleKind::scheduler:
      return scheduler_text(one);
    case TroubleKind::copied:
      return words(one.detail);
    case TroubleKind::unanswered:
      return fmt::format(
          "Sweep '{}': the scheduler has not confirmed {}{}: {}. The daemon looks for "
          "the job, and submits it again if it is not there.",
          one.where, counted(one.jobs, "submission"), when, said);
    case TroubleKind::deferred:
      return fmt::format(
          "Sweep '{}': Slurm has put off {}{} ({}): {}. The daemon tries again "
          "by itself; 'shardsweep cancel {}' gives up.",
          one.where, counted(one.jobs, "submission"), when,
          one.times == 1 ? "once" : fmt::format("{} times", one.times), said, one.where);
    case TroubleKind::refused:
      return fmt::format(
          "Sweep '{}': the scheduler has refused {}{}: {}. Change what it asks for, and "
          "submit it again.",
          one.where, counted(one.times, "job"), when, said);
    case TroubleKind::unclaimed:
      return fmt::format(
          "Sweep '{}': {} {} run{}, but shardsweep's agent has not begun to work there. A node's "
          "prolog may take long, or the nodes do not see the database's folder. After "
          "daemon.claim_limit the daemon gives the job up, and cancels it if it is a job of Slurm.",
          one.where, counted(one.jobs, "job"), one.jobs > 1 ? "have" : "has", when);
    case TroubleKind::silent:
      return fmt::format(
          "Sweep '{}': shardsweep's agent in {} has written nothing{}. Its node may not be able to "
          "write into the database's folder. After daemon.lead_limit the daemon gives the job "
          "up, and cancels it if it is a job of Slurm.",
          one.where, counted(one.jobs, "job"), when);
    case TroubleKind::unreadable:
      return fmt::format(
          "Sweep '{}': the records of {} can't be read{}: {}. Later results of the same job wait "
          "until they can. After daemon.records_limit the attempt ends as lost.",
          one.where, counted(one.times, "ended attempt"), when, said);
    case TroubleKind::submitting:
      return fmt::format(
          "Sweep '{}': the scheduler has not answered {}{}. It may be slow, or hang; after "
          "slurm.submit_limit the daemon looks for the job.",
          one.where, counted(one.jobs, "submission"), when);
    case TroubleKind::nearly_full:
      return fmt::format(
          "The disk of {} is nearly full: {}. `shardsweep gc` lists files that can be removed.",
          one.where, said);
    case TroubleKind::unloaded:
      return fmt::format(
          "No trial of sweep '{}' is started{}: {}. Submit the sweep file again, or delete the "
          "sweep.",
          one.where, when, said);
    case TroubleKind::unwatched:
      return fmt::format(
          "Sweep '{}' is not measured again: {}. The next try is at its next `remeasure: every`.",
          one.where, said);
    default:
      return storage_text(one);
  }
}

std::vector<Trouble> troubles(const Home& home) {
  std::vector<Trouble> all = told_by_daemon(home);
  for (const auto& folder : {home.dir(), home.database.parent_path()}) {
    const auto seen = seen_from_here(folder);
    // The folder lies beside the database: one sentence for both.
    const bool told = seen && std::any_of(all.begin(), all.end(), [&](const Trouble& one) {
      return one.kind == seen->kind;
    });
    if (seen && !told) all.push_back(*seen);
  }
  return all;
}

// ---- TroubleFile

Result<TroubleFile> TroubleFile::open(const Home& home) {
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(home.trouble()));
  SHARDSWEEP_ASSIGN(Descriptor opened,
      folder.open_file(home.trouble().filename().string(), O_WRONLY | O_CREAT, 0644));
  TroubleFile file(opened.release());
  // Written once: its blocks are there from now on, also where fallocate is not known.
  SHARDSWEEP_TRY(file.write({}, SystemClock().now()));
  return file;
}

TroubleFile::TroubleFile(TroubleFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), count_(other.count_) {}
TroubleFile& TroubleFile::operator=(TroubleFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(count_, other.count_);
  return *this;
}
TroubleFile::~TroubleFile() {
  if (descriptor_ < 0) return;
  try {
    (void)write({}, 0);  // clears the file: nobody updates it from now on
  } catch (...) {
    // Out of memory, as after a kill: readers see that the file is old.
  }
  ::close(descriptor_);
}

Result<void> TroubleFile::write(const std::vector<Trouble>& all, Timestamp now) {
  ++count_;
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(all.size(), most_troubles); ++i)
    list.push_back(to_json(all[i]));
  const auto dump = [&] {
    const Json json{{"a", count_}, {"at", now}, {"troubles", list}, {"z", count_}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string content = dump();
  while (content.size() >= file_bytes) {
    list.erase(list.size() - 1);
    content = dump();
  }
  content.resize(file_bytes, ' ');
  const ssize_t written = ::pwrite(descriptor_, content.data(), content.size(), 0);
  if (written != static_cast<ssize_t>(content.size()))
    return fault(FaultKind::unavailable, "cannot write the file of troubles: {}",
        written < 0 ? std::strerror(errno) : "only a part was written");
  return {};
}

}  // namespace shardsweep
