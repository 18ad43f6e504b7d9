// SPDX-License-Identifier: Apache-2.0
// Requests of commands: each is done, committed, answered, and only then forgotten.
#pragma once

#include "daemon/outside.hpp"
#include "daemon/sweeps.hpp"
#include "fleet/verbs.hpp"

#include <shardsweep/requests.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

class RequestDesk {
 public:
  /// Services of the daemon: fold in news of leads, commit the world's changes, read the database
  /// anew.
  struct Books {
    std::function<void()> listen;
    std::function<Result<void>()> commit;
    std::function<Result<void>()> reload;
  };
  RequestDesk(const DaemonParts& parts, World& world, Sweeps& sweeps, Outside& outside, Books books)
      : parts_(parts),
        world_(world),
        sweeps_(sweeps),
        outside_(outside),
        books_(std::move(books)),
        watch_(parts.home) {}

  /// Serves waiting requests. A request that takes several ticks delays only those that depend on
  /// it.
  [[nodiscard]] Result<void> serve();
  /// A request waits, or is only half served.
  [[nodiscard]] bool serving() const { return serving_; }
  /// A request is served piece by piece, and the next piece can follow at once.
  [[nodiscard]] bool in_pieces() const { return storing_.has_value() || !deleting_.empty(); }
  /// Answers that could not be written.
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  [[nodiscard]] bool asked_to_stop() const { return asked_to_stop_; }
  /// Readable where a request has come.
  [[nodiscard]] int descriptor() const { return watch_.descriptor(); }

 private:
  /// A deletion that is half done.
  struct Deletion {
    Answer answer;
    std::vector<SweepId> left;
    std::vector<std::string> kept;  ///< why a file or folder of theirs is still there
  };
  [[nodiscard]] bool needs_the_whole(const PendingRequest& waiting) const;
  [[nodiscard]] bool is_kept(const std::string& name) const;
  [[nodiscard]] Result<bool> serve_or_refuse(const PendingRequest& waiting);
  [[nodiscard]] Result<bool> serve_one(const PendingRequest& waiting);
  [[nodiscard]] Result<std::optional<Answer>> answer_to(const PendingRequest& waiting);
  [[nodiscard]] Result<std::optional<Answer>> serve(const Request& request);
  [[nodiscard]] Result<std::optional<Answer>> serve_submit(const Request& request);
  [[nodiscard]] Result<Answer> serve_verb(const Request& request);
  [[nodiscard]] Result<Steps> steps_for(const Request& request);
  void apply(const SweepStep& step, const Request& request);
  void apply(const TrialStep& step, const Request& request);
  void drain_all(SweepId sweep);
  [[nodiscard]] Result<std::optional<Answer>> serve_delete(const Request& request);
  [[nodiscard]] Result<void> forget_folder(Store::Folder kind, const std::string& named);
  [[nodiscard]] Result<Answer> serve_clear_node(const Request& request);
  [[nodiscard]] Result<Answer> serve_learn(const Request& request);
  [[nodiscard]] Result<Answer> serve_forget(const Request& request);
  /// True if a sweep that is submitted now learns from it.
  [[nodiscard]] Result<bool> knows(const std::string& knowledge);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Outside& outside_;
  Books books_;
  RequestWatch watch_;
  bool serving_ = false;
  bool asked_to_stop_ = false;
  bool reload_ = false;  ///< the world has more rows than before, once they are committed
  std::optional<std::string> storing_;        ///< the sweep whose submission is half stored
  bool in_pieces_ = false;                    ///< the last piece was not the end of its sweep
  std::map<std::string, Answer> unsent_;      ///< answers of served requests that are still
                                              ///< unwritten, by id
  std::map<std::string, Deletion> deleting_;  ///< deletions by request
};

}  // namespace shardsweep
