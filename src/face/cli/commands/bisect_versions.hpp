// SPDX-License-Identifier: Apache-2.0
// The row of versions that a bisection goes through, and each of them made ready to be run.
#pragma once

#include "cli/session.hpp"
#include "machine/descriptor.hpp"
#include "show/bisect_view.hpp"

#include <shardsweep/result.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace shardsweep {

/// The commits behind `good` up to `bad`, along first parents, with `good` in front.
[[nodiscard]] Result<std::vector<BisectVersion>> commits_between(
    const std::filesystem::path& repository, const std::string& good, const std::string& bad);

/// Versions from `good` to `bad` in the list; all of it if both are empty.
[[nodiscard]] Result<std::vector<BisectVersion>> images_between(
    const std::vector<std::string>& images, const std::string& good, const std::string& bad);

/// `--images`: one name of a text file means its lines.
[[nodiscard]] Result<std::vector<std::string>> images_named(const std::vector<std::string>& words);

struct BisectHook {
  std::vector<std::string> words{};    ///< empty: none
  std::filesystem::path repository{};  ///< empty: the versions are images
  std::string product = "runner";      ///< program that the hook makes, in the folder of a commit
};

/// Versions that hooks have made, a folder for each. A version is made once, even if a command is
/// killed meanwhile: a file says that its hook has ended.
class BisectWorkshop {
 public:
  /// A fault if another command works in it.
  [[nodiscard]] static Result<BisectWorkshop> open(const Session& session, const std::string& name,
      BisectHook hook, std::vector<BisectVersion> versions);

  /// Versions that cannot be made, by place: why.
  [[nodiscard]] const std::map<std::size_t, std::string>& unbuilt() const { return unbuilt_; }
  [[nodiscard]] bool is_ready(std::size_t place) const;
  /// Runs the hook, unless it has run. A hook that itself cannot be started is a fault; one
  /// that fails leaves its version in unbuilt().
  [[nodiscard]] Result<void> prepare(std::size_t place);
  /// A program that runs what the hook has made of the commit in the variable BISECT; without
  /// it, of the first one.
  [[nodiscard]] Result<std::filesystem::path> starter() const;

 private:
  BisectWorkshop(std::filesystem::path folder, BisectHook hook, std::vector<BisectVersion> versions,
      Descriptor lock)
      : folder_(std::move(folder)),
        hook_(std::move(hook)),
        versions_(std::move(versions)),
        lock_(std::move(lock)) {}

  [[nodiscard]] std::string folder_name(std::size_t place) const;
  [[nodiscard]] std::filesystem::path work_of(std::size_t place) const;
  [[nodiscard]] std::filesystem::path mark_of(std::size_t place, const char* ending) const;
  [[nodiscard]] Result<void> check_out(std::size_t place) const;
  /// Why it failed; empty: it did not.
  [[nodiscard]] Result<std::string> run_hook(std::size_t place) const;

  std::filesystem::path folder_;
  BisectHook hook_;
  std::vector<BisectVersion> versions_;
  Descriptor lock_;
  std::map<std::size_t, std::string> unbuilt_{};
};

}  // namespace shardsweep
