// SPDX-License-Identifier: Apache-2.0
// The daemon's tick: serve requests, observe, fold, decide, commit, act. One thread; nothing in
// a tick blocks. It is the database's one writer.
#pragma once

#include "fleet/decide.hpp"
#include "fleet/fold.hpp"
#include "fleet/notices.hpp"
#include "fleet/troubles.hpp"
#include "fleet/verbs.hpp"
#include "fleet/world.hpp"
#include "search/sweep_search.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/notifier.hpp>
#include <shardsweep/requests.hpp>
#include <shardsweep/scheduler.hpp>
#include <shardsweep/storage.hpp>
#include <shardsweep/store.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsweep {

/// What the daemon works with; none of it is the daemon's own.
struct DaemonParts {
  Home home;
  Installation installation;
  Store& store;
  const Clock& clock;
  /// Asked once for every way in which sweeps reach their nodes.
  std::function<std::unique_ptr<Scheduler>(const std::string& backend, const SiteSpec&)>
      make_scheduler;
  std::function<std::unique_ptr<Notifier>(const NotifySettings&)> make_notifier;
  std::function<std::string(int digits)> random_hex;
  Policy policy;  ///< of the daemon itself; each sweep brings its own
};

class Daemon {
 public:
  explicit Daemon(DaemonParts parts)
      : parts_(std::move(parts)),
        watch_(parts_.home),
        home_is_shared_(!is_local_file_system(parts_.home.database)) {}

  /// Reads what is not over. The lease is held already.
  [[nodiscard]] Result<void> load();

  /// One pass. A fault of kind `rejected` means that another daemon has taken over: write no
  /// more.
  [[nodiscard]] Result<void> tick();

  /// Something runs, waits to run, or has been asked for.
  [[nodiscard]] bool busy() const;
  /// Nothing is left to do. The database says so, not what this daemon has in memory: where
  /// the two differ, the database is read again.
  [[nodiscard]] Result<bool> nothing_left();
  [[nodiscard]] bool asked_to_stop() const { return asked_to_stop_; }
  /// An answer of a scheduler is on its way that a single pass should wait for.
  [[nodiscard]] bool settling() const;
  /// Descriptors whose readiness makes a tick worthwhile.
  [[nodiscard]] std::vector<pollfd> descriptors() const;
  /// Until the next tick is due.
  [[nodiscard]] std::chrono::milliseconds pause() const;

 private:
  /// A sweep's file, read once per submission.
  struct SweepContext {
    std::string resolved;
    std::string site_text;
    SweepSpec spec;
    SiteSpec site;
    std::unique_ptr<SweepSearch> search;  ///< none: the plan's order, to its end
  };
  /// What has been said to a lead, read back from to_lead after a restart.
  struct Channel {
    explicit Channel(const AllocationPaths& paths)
        : to_lead(paths.to_lead()), reader(paths.from_lead()) {}
    std::filesystem::path to_lead;
    LineReader reader;
    std::deque<std::string> unread;  ///< lines of from_lead that are not folded yet
    std::int64_t n = 0;
    std::set<AttemptId> assigned;
    std::set<AttemptId> revoked;
    std::set<AttemptId> cancelled;
    bool drained = false;
    /// World::version_of() when all orders had been said; 0: not all of them.
    std::uint64_t said = 0;
    bool submitted = false;  ///< by this process
    std::optional<std::chrono::steady_clock::time_point> released_at;
    std::optional<std::chrono::steady_clock::time_point> job_ended_at;
  };

  // serve.cpp
  [[nodiscard]] Result<void> serve_requests();
  [[nodiscard]] Result<bool> serve_one(const PendingRequest& waiting);
  [[nodiscard]] Result<std::optional<Answer>> serve(const Request& request);
  [[nodiscard]] Result<std::optional<Answer>> serve_submit(const Request& request);
  [[nodiscard]] Result<Answer> serve_verb(const Request& request);
  [[nodiscard]] Result<Steps> steps_for(const Request& request);
  void apply(const SweepStep& step, const Request& request);
  void apply(const TrialStep& step, const Request& request);
  void drain_all(SweepId sweep);
  [[nodiscard]] Result<std::optional<Answer>> serve_delete(const Request& request);
  void forget_folder(Store::Folder kind, const std::string& dir);
  [[nodiscard]] Result<Answer> serve_clear_node(const Request& request);

  // observe.cpp
  void observe();
  void look_at_schedulers();
  [[nodiscard]] bool last_words_may_come(const AllocationRow& allocation);
  void end_deferrals();
  void dismiss_unsubmitted();
  [[nodiscard]] std::string scheduler_key(const std::string& backend, SweepId sweep) const;
  [[nodiscard]] Scheduler& scheduler_of(const std::string& backend, SweepId sweep);
  void ask_sites();
  void take_events(const std::string& key, Scheduler& scheduler);
  void take_site(const std::string& key, const SiteSeen& site);
  void read_lines(const AllocationRow& allocation);
  [[nodiscard]] std::optional<RecordsSummary> patient_records(const AttemptPaths& paths,
                                                              const std::string& nonce,
                                                              bool packed);
  [[nodiscard]] bool read_line(const AllocationRow& allocation, Channel& channel);
  void remove_unused(AttemptId id);
  void take_event(const SchedulerEvent& event);
  [[nodiscard]] double answer_limit_s(const std::string& key) const;
  [[nodiscard]] double look_interval_s(const std::string& key,
                                       const Scheduler& scheduler) const;
  [[nodiscard]] bool submitted_again(const AllocationRow& allocation);
  void bury(AllocationId allocation);
  void judge_result(const AttemptRow& attempt, RecordsSummary& records);
  [[nodiscard]] Result<std::string> doubt_of(const AttemptRow& attempt,
                                             const AddMeasurement& result);
  void dismiss(const AllocationRow& allocation, const std::vector<Orphan>& orphans);
  [[nodiscard]] const Policy& policy_of(SweepId sweep) const;

  // act.cpp
  void act();
  [[nodiscard]] AllocationHandle handle_of(const AllocationRow& allocation) const;
  [[nodiscard]] bool is_said(const AllocationRow& allocation) const;
  [[nodiscard]] bool say_orders(const AllocationRow& allocation);
  void act_on(const AllocationRow& allocation);
  void submit(const AllocationRow& allocation, Scheduler& scheduler);
  void release(const AllocationRow& allocation, Channel& channel, Scheduler& scheduler);
  [[nodiscard]] Result<void> prepare(const AllocationRow& allocation);
  [[nodiscard]] Result<void> write_script(const AllocationRow& allocation);
  [[nodiscard]] Result<bool> send_orders(const AllocationRow& allocation);
  [[nodiscard]] Result<void> send(Channel& channel, ToLeadBody body);
  [[nodiscard]] Result<void> assign(const AllocationRow& allocation, AttemptId attempt);
  [[nodiscard]] Result<std::optional<Point>> example_of(SweepId id, const SweepSpec& sweep);
  [[nodiscard]] Result<void> assign_probe(const AllocationRow& allocation);
  [[nodiscard]] Result<void> assign_control(const AllocationRow& allocation, ControlTime time);
  struct Extra {
    AttemptId id = 0;
    std::string name;
    const SweepSpec& sweep;
    Point point;
    std::filesystem::path dir;
    std::string nonce;
  };
  [[nodiscard]] Result<void> assign_extra(const AllocationRow& allocation, const Extra& extra);
  [[nodiscard]] AttemptPaths control_paths(const AllocationRow& allocation,
                                           ControlTime time) const;
  [[nodiscard]] static std::string control_nonce(const AllocationRow& allocation,
                                                 ControlTime time);
  [[nodiscard]] Result<Channel*> channel_of(const AllocationRow& allocation);
  void forget_ended();

  // trouble.cpp
  [[nodiscard]] Result<void> note_troubles(Result<void> pass);
  void note_event(const std::string& key, const SchedulerEvent& event);
  void look_at_home(bool failed);
  void tell_troubles();
  [[nodiscard]] bool storage_fails() const;

  // notify.cpp
  void notify();
  [[nodiscard]] bool is_telling() const;

  [[nodiscard]] Result<void> pass();
  void follow_clock();
  void take_time();
  void add_site(const SweepContext& context, const SweepRow& sweep, SweepFacts& facts);
  [[nodiscard]] DecideInput decide_input();
  [[nodiscard]] Result<void> commit();
  [[nodiscard]] Result<void> renew_lease();
  [[nodiscard]] Result<SweepContext*> context_of(const SweepRow& sweep);
  // search.cpp
  [[nodiscard]] Result<SweepSearch*> search_of(SweepId sweep, SweepContext& context);
  [[nodiscard]] Result<std::unique_ptr<SweepSearch>> make_search(SweepId sweep,
                                                                 const SweepSpec& spec);
  [[nodiscard]] Result<void> read_reopened(SweepId id, SweepSearch& search);
  void forget_searches();
  void tell_searches();

  [[nodiscard]] Result<void> reload();

  DaemonParts parts_;
  RequestWatch watch_;
  bool home_is_shared_;  ///< with other hosts, over a network
  std::int64_t epoch_ = 0;
  std::string boot_id_;
  World world_;
  std::map<SweepId, SweepContext> contexts_;
  std::map<AllocationId, Channel> channels_;
  /// By backend and, for slurmrestd, its address.
  std::map<std::string, std::unique_ptr<Scheduler>> schedulers_;
  std::map<std::string, std::chrono::steady_clock::time_point> last_look_;  ///< the same key
  std::optional<std::chrono::steady_clock::time_point> last_renewal_;
  std::optional<std::chrono::steady_clock::time_point> last_tick_;
  std::map<std::string, SiteFacts> sites_;  ///< what schedulers have told, by the same key
  std::map<SweepId, bool> open_;            ///< by limits.hours, when it was decided last
  std::int32_t week_minute_ = 0;            ///< local, from Monday 00:00
  std::int32_t week_second_ = 0;
  bool asked_to_stop_ = false;
  bool serving_ = false;  ///< a request is only half served
  bool reload_ = false;   ///< more rows are of the world than before, once they are committed
  std::uint64_t outside_ = 1;  ///< grows with what is decided over and in no row: site, hours
  /// What was decided over last.
  struct Decided {
    std::uint64_t world = 0;
    std::uint64_t outside = 0;
    friend bool operator==(const Decided&, const Decided&) = default;
  };
  Decided decided_;
  // Versions of the world; 0: none, or not all of it.
  std::uint64_t said_ = 0;       ///< its orders have been said to the leads
  AllocationId acted_on_ = 0;    ///< the last one: the next pass begins after it
  std::uint64_t forgotten_ = 0;  ///< what had ended in it was forgotten
  /// An attempt whose records can't be read, though they are there.
  struct Unreadable {
    std::chrono::steady_clock::time_point since;
    std::chrono::steady_clock::time_point again;
    std::chrono::milliseconds pause;
    std::string given_up{};  ///< why nobody tries any more; empty: it is tried
  };
  std::map<std::string, Unreadable> unreadable_;  ///< by nonce
  Troubles troubles_;
  std::vector<Trouble> told_;  ///< of them, in the file
  std::optional<TroubleFile> trouble_file_;
  std::chrono::steady_clock::time_point troubles_written_at_;
  std::optional<std::chrono::steady_clock::time_point> storage_looked_at_;
  std::optional<std::chrono::steady_clock::time_point> storage_failed_at_;
  std::optional<std::chrono::steady_clock::time_point> folder_gone_since_;
  bool storage_doubted_ = false;  ///< a file could not be written
  Watcher watcher_;
  std::map<NotifySettings, std::unique_ptr<Notifier>> notifiers_;
  std::map<std::string, Answer> unsent_;  ///< of requests that are done, by id
  /// A deletion that is half done.
  struct Deletion {
    Answer answer;
    std::vector<SweepId> left;
  };
  std::map<std::string, Deletion> deleting_;  ///< by request
};

}  // namespace shardsweep
