// SPDX-License-Identifier: Apache-2.0
// Decision: A *trouble* keeps sweeps from going on. It is written into a file of fixed size
// beside the database, which works on a full disk.
#include "daemon/health.hpp"

#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace shardsweep {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 2s;   // one system call, on a network file system one question
constexpr auto write_every = 5s;  // readers on another host believe the file for 20 s
constexpr auto gone_limit = 10s;  // a folder that is away for less was an automounter's

bool has(const std::vector<Trouble>& all, const Trouble& trouble) {
  return std::any_of(all.begin(), all.end(),
      [&](const Trouble& one) { return one.kind == trouble.kind && one.where == trouble.where; });
}

bool answers(const SchedulerEvent& event) {
  return std::holds_alternative<JobSeen>(event) || std::holds_alternative<JobNotSeen>(event) ||
      std::holds_alternative<JobMissed>(event) || std::holds_alternative<SubmitAccepted>(event) ||
      std::holds_alternative<SubmitRefused>(event) ||
      std::holds_alternative<SubmitDeferred>(event) || std::holds_alternative<SiteSeen>(event);
}

}  // namespace

void Health::note_event(const std::string& key, const SchedulerEvent& event) {
  const Timestamp now = parts_.clock.now();
  if (const auto* failed = std::get_if<LookFailed>(&event))
    troubles_.raise(TroubleKind::scheduler, key, failed->why, now);
  if (answers(event)) troubles_.clear(TroubleKind::scheduler, key);
  const auto name_of = [&](const std::string& token) -> std::string {
    const AllocationRow* row = world_.allocation_of(token);
    const SweepRow* sweep = row == nullptr ? nullptr : world_.sweep(row->sweep);
    return sweep == nullptr ? "" : sweep->name;
  };
  // Finals without other nodes end, and their sweep says so.
  const auto is_confirmation = [&](const std::string& token) {
    const AllocationRow* row = world_.allocation_of(token);
    return row != nullptr && !row->avoid.empty();
  };
  if (const auto* refused = std::get_if<SubmitRefused>(&event);
      refused != nullptr && !is_confirmation(refused->token))
    troubles_.raise(TroubleKind::refused, name_of(refused->token), refused->why, now);
  if (const auto* accepted = std::get_if<SubmitAccepted>(&event))
    troubles_.clear(TroubleKind::refused, name_of(accepted->token));
}

/// Looks at the storage. While the file system answers, no file is written to test it, unless
/// something has failed.
void Health::look_at_home(bool failed) {
  const auto now = parts_.clock.steady();
  const bool due = !storage_looked_at_ || now - *storage_looked_at_ >= look_every;
  if (!due && !(failed && !troubles_.storage_fails())) return;
  storage_looked_at_ = now;
  const auto folder = parts_.home.dir();
  const bool doubtful = failed || troubles_.storage_fails() || storage_doubted_;
  storage_doubted_ = false;
  auto fault = doubtful ? try_storage(folder) : look_at_storage(folder);
  if (!fault) fault = look_at_storage(parts_.home.database.parent_path());
  // Working storage would make new folders without an error: only the lock's file shows that they
  // are new.
  if (!fault) fault = look_at_lock();
  troubles_.set_storage(folder.string(), fault, parts_.clock.now());
  if (fault && fault->problem == StorageProblem::gone) {
    if (!folder_gone_since_) folder_gone_since_ = now;
  } else {
    folder_gone_since_.reset();
  }
  if (fault) storage_failed_at_ = now;
}

/// Looks at the lock file by its name, as the next daemon will. If it now lies on another device,
/// its file system died and was mounted again, and this daemon's open files are on the dead one.
std::optional<StorageFault> Health::look_at_lock() {
  struct stat about {};
  if (::stat(parts_.home.lock().c_str(), &about) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return std::nullopt;
    return StorageFault{StorageProblem::gone, "deleted"};
  }
  if (device_ == 0) device_ = about.st_dev;
  if (device_ == about.st_dev) return std::nullopt;
  return StorageFault{StorageProblem::gone, "mounted again"};
}

/// True if storage fails now, or failed a moment ago: other failures then are its fault.
bool Health::storage_fails() const {
  constexpr auto aftermath = 10s;
  return troubles_.storage_fails() ||
      (storage_failed_at_ && parts_.clock.steady() - *storage_failed_at_ < aftermath);
}

Result<void> Health::note_pass(Result<void> pass, bool unsent) {
  const Timestamp now = parts_.clock.now();
  const std::string database = parts_.home.database.string();
  look_at_home(!pass);
  const bool failed = !pass && worth_retrying(pass.error().kind) && !troubles_.storage_fails();
  if (failed) {
    troubles_.raise(TroubleKind::database, database, pass.error().what, now);
  } else {
    troubles_.clear(TroubleKind::database, database);
  }
  if (pass && unsent) {
    troubles_.raise(TroubleKind::requests, parts_.home.answers().string(), "", now);
  } else if (pass) {
    troubles_.clear(TroubleKind::requests, parts_.home.answers().string());
  }
  troubles_.set_submissions(world_);
  tell_troubles();
  const bool gone = folder_gone_since_ && parts_.clock.steady() - *folder_gone_since_ >= gone_limit;
  if (gone)
    return fault(FaultKind::rejected,
        "the folder {} was deleted, moved or mounted again, so the daemon ends. Running "
        "jobs go on; submit the sweep again to find them",
        parts_.home.dir().string());
  return pass;
}

void Health::tell_troubles() {
  const auto now = parts_.clock.steady();
  std::vector<Trouble> all = troubles_.shown(parts_.clock.now());
  for (const Trouble& one : all) {
    if (!has(told_, one)) log_warning("trouble: " + text(one));
  }
  for (const Trouble& one : told_) {
    if (!has(all, one)) log_info(fmt::format("trouble is over: {} {}", name(one.kind), one.where));
  }
  const bool news = all != told_;
  const bool again = !all.empty() && now - written_at_ >= write_every;
  if (!news && !again && file_) return;
  told_ = std::move(all);
  if (!file_) {
    auto file = TroubleFile::open(parts_.home);
    if (file) file_ = std::move(*file);
  }
  if (file_ && file_->write(told_, parts_.clock.now())) written_at_ = now;
}

}  // namespace shardsweep
