// SPDX-License-Identifier: Apache-2.0
// Decision: The hook gets a clone of the repository with its commit checked out, and not a
// worktree: that would leave entries in the user's repository if a command is killed. Objects
// are shared, so that a clone costs its files alone.
#include "cli/commands/bisect_versions.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/command.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t short_commit = 12;
constexpr std::size_t longest_list = 1 << 20;
constexpr std::size_t shown_of_log = 300;
/// First exit code that is not the hook's own, as in `git bisect run`. From here on a shell tells
/// that it could not start the program, or that a signal ended it.
constexpr int first_not_of_hook = 126;

Result<CommandOutput> git_in(const fs::path& folder, std::vector<std::string> words) {
  std::vector<std::string> argv{"git", "-C", folder.string()};
  argv.insert(argv.end(), words.begin(), words.end());
  return run_command(argv, {.deadline = std::chrono::minutes(10), .output_limit = 64 << 20});
}

Result<std::string> git_says(
    const fs::path& folder, std::vector<std::string> words, std::string_view option) {
  SHARDSWEEP_ASSIGN(auto output, git_in(folder, words));
  if (output.exit_code == 0 && !output.truncated) return std::string(trimmed(output.out));
  return fault(FaultKind::invalid_input, "{}: 'git {}' in {} failed: {}", option,
      fmt::join(words, " "), folder.string(), trimmed(output.err).substr(0, shown_of_log));
}

Result<bool> is_ancestor(const fs::path& folder, const std::string& one, const std::string& other) {
  SHARDSWEEP_ASSIGN(const auto output, git_in(folder, {"merge-base", "--is-ancestor", one, other}));
  return output.exit_code == 0;
}

std::string end_of_file(const fs::path& file) {
  const auto text = read_file(file, longest_list);
  if (!text) return {};
  std::string_view rest = trimmed(*text);
  if (rest.size() > shown_of_log) rest.remove_prefix(rest.size() - shown_of_log);
  const auto line = rest.rfind('\n');
  return std::string(line == std::string_view::npos ? rest : rest.substr(line + 1));
}

}  // namespace

Result<std::vector<BisectVersion>> commits_between(
    const fs::path& repository, const std::string& good, const std::string& bad) {
  constexpr std::string_view option = "--between";
  SHARDSWEEP_ASSIGN(const auto first,
      git_says(repository, {"rev-parse", "--verify", good + "^{commit}"}, option));
  SHARDSWEEP_ASSIGN(
      const auto last, git_says(repository, {"rev-parse", "--verify", bad + "^{commit}"}, option));
  if (first == last)
    return fault(FaultKind::invalid_input, "--between {0} {1}: both are the commit {2}", good, bad,
        first.substr(0, short_commit));
  SHARDSWEEP_ASSIGN(const bool in_order, is_ancestor(repository, first, last));
  SHARDSWEEP_ASSIGN(const bool reversed, is_ancestor(repository, last, first));
  if (!in_order)
    return fault(FaultKind::invalid_input,
        reversed ? fmt::format("--between {0} {1}: {1} is older than {0}. Name the one that is "
                               "known to be fast first: --between {1} {0}",
                       good, bad)
                 : fmt::format("--between {0} {1}: {0} is no ancestor of {1}; 'git merge-base {0} "
                               "{1}' names one",
                       good, bad));
  const std::vector<std::string> form{
      "log", "--first-parent", "--reverse", "--format=%H%x09%an, %as: %s"};
  auto words = form;
  words.push_back(first + ".." + last);
  SHARDSWEEP_ASSIGN(const auto behind, git_says(repository, std::move(words), option));
  words = form;
  words.insert(words.end(), {"-1", first});
  SHARDSWEEP_ASSIGN(const auto begin, git_says(repository, std::move(words), option));
  std::vector<BisectVersion> versions;
  const std::string all = begin + "\n" + behind;
  for (const auto line : split(all, '\n')) {
    const auto tab = std::min(line.find('\t'), line.size());
    if (tab < short_commit) continue;
    versions.push_back({std::string(line.substr(0, tab)), std::string(line.substr(0, short_commit)),
        std::string(line.substr(std::min(tab + 1, line.size())))});
  }
  return versions;
}

Result<std::vector<BisectVersion>> images_between(
    const std::vector<std::string>& images, const std::string& good, const std::string& bad) {
  const auto find = [&](const std::string& name) {
    return std::find(images.begin(), images.end(), name);
  };
  const auto first = good.empty() ? images.begin() : find(good);
  const auto last = bad.empty() ? images.end() - 1 : find(bad);
  if (first == images.end() || last == images.end())
    return fault(FaultKind::invalid_input, "--between: {} is not in the list of --images",
        first == images.end() ? good : bad);
  if (first >= last)
    return fault(FaultKind::invalid_input,
        "--between {} {}: the list of --images has to name the one that is known to be fast first",
        good, bad);
  std::vector<BisectVersion> versions;
  for (auto image = first; image <= last; ++image) {
    if (std::count(first, last + 1, *image) > 1)
      return fault(FaultKind::invalid_input, "--images: {} is there twice", *image);
    versions.push_back({*image, *image, {}});
  }
  return versions;
}

Result<std::vector<std::string>> images_named(const std::vector<std::string>& words) {
  std::vector<std::string> images = words;
  std::error_code none;
  const bool is_list = words.size() == 1 && fs::is_regular_file(words.front(), none);
  if (is_list) {
    SHARDSWEEP_ASSIGN(const auto text, read_file(words.front(), longest_list));
    images.clear();
    for (const auto line : split(text, '\n')) {
      const auto image = trimmed(line);
      if (!image.empty() && image.front() != '#') images.emplace_back(image);
    }
  }
  if (images.size() >= 2) return images;
  return fault(FaultKind::invalid_input,
      "--images {}: two images or more are needed, the oldest first, or a text file with a line "
      "for each",
      fmt::join(words, " "));
}

Result<BisectWorkshop> BisectWorkshop::open(const Session& session, const std::string& name,
    BisectHook hook, std::vector<BisectVersion> versions) {
  SHARDSWEEP_TRY(make_home(session.home));
  const auto folder = session.home.dir() / "bisect" / name;
  std::error_code why;
  fs::create_directories(folder, why);
  if (why) return fault(FaultKind::unavailable, "{}: {}", folder.string(), why.message());
  Descriptor lock(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fault(FaultKind::busy,
        errno == EWOULDBLOCK
            ? fmt::format("another command works on {} at this moment", name)
            : fmt::format("{}: {}", (folder / "lock").string(), std::strerror(errno)));
  BisectWorkshop workshop(folder, std::move(hook), std::move(versions), std::move(lock));
  for (std::size_t place = 0; place < workshop.versions_.size(); ++place) {
    const auto mark = workshop.mark_of(place, "broken");
    if (!fs::exists(mark, why)) continue;
    SHARDSWEEP_ASSIGN(const auto text, read_file(mark, longest_list));
    workshop.unbuilt_.emplace(place, std::string(trimmed(text)));
  }
  return workshop;
}

std::string BisectWorkshop::folder_name(std::size_t place) const {
  return hook_.repository.empty() ? fmt::format("image{}", place) : versions_.at(place).name;
}
fs::path BisectWorkshop::work_of(std::size_t place) const {
  return folder_ / folder_name(place);
}
fs::path BisectWorkshop::mark_of(std::size_t place, const char* ending) const {
  return folder_ / fmt::format("{}.{}", folder_name(place), ending);
}

bool BisectWorkshop::is_ready(std::size_t place) const {
  std::error_code none;
  return fs::exists(mark_of(place, "ready"), none);
}

Result<void> BisectWorkshop::check_out(std::size_t place) const {
  const auto& id = versions_.at(place).id;
  const auto work = work_of(place);
  SHARDSWEEP_TRY(git_says(hook_.repository,
      {"clone", "--quiet", "--shared", "--no-checkout", hook_.repository.string(), work.string()},
      "bisect"));
  SHARDSWEEP_TRY(git_says(work, {"checkout", "--quiet", "--detach", id}, "bisect"));
  return {};
}

Result<std::string> BisectWorkshop::run_hook(std::size_t place) const {
  const auto& version = versions_.at(place);
  const auto log = mark_of(place, "log");
  const auto work = work_of(place);
  auto environment = own_environment();
  environment.push_back("SHARDSWEEP_WORK=" + work.string());
  if (hook_.repository.empty()) {
    environment.push_back("SHARDSWEEP_IMAGE=" + version.id);
  } else {
    environment.push_back("SHARDSWEEP_COMMIT=" + version.id);
    environment.push_back("SHARDSWEEP_REPOSITORY=" + hook_.repository.string());
  }
  std::vector<std::string> argv{"/bin/sh", "-c",
      "cd \"$1\" && shift && exec \"$@\" >\"$0\" 2>&1 </dev/null", log.string(), work.string()};
  argv.insert(argv.end(), hook_.words.begin(), hook_.words.end());
  SHARDSWEEP_ASSIGN(const auto output,
      run_command(
          argv, {.deadline = std::chrono::hours(24), .environment = std::move(environment)}));
  if (output.exit_code == 0) return std::string();
  const auto last = end_of_file(log);
  if (output.exit_code < 0 || output.exit_code >= first_not_of_hook)
    return fault(FaultKind::invalid_input, "the hook '{}' {}: {}", fmt::join(hook_.words, " "),
        output.exit_code < 0 ? fmt::format("was ended by signal {}", output.signal)
                             : fmt::format("ended with {}", output.exit_code),
        last.empty() ? trimmed(output.err) : std::string_view(last));
  return fmt::format("the hook ended with {}{}{} ({})", output.exit_code, last.empty() ? "" : ": ",
      last, log.string());
}

Result<void> BisectWorkshop::prepare(std::size_t place) {
  if (is_ready(place) || unbuilt_.contains(place)) return {};
  std::error_code why;
  const auto work = work_of(place);
  fs::remove_all(work, why);  // remains of a command that was killed
  if (hook_.repository.empty()) {
    fs::create_directories(work, why);
    if (why) return fault(FaultKind::unavailable, "{}: {}", work.string(), why.message());
  } else {
    SHARDSWEEP_TRY(check_out(place));
  }
  std::string failed;
  if (!hook_.words.empty()) SHARDSWEEP_SET(failed, run_hook(place));
  const auto product = work / hook_.product;
  if (failed.empty() && !hook_.repository.empty() && ::access(product.c_str(), X_OK) != 0)
    failed = fmt::format("there is no program {} after the hook", product.string());
  if (failed.empty()) return write_file_durably(mark_of(place, "ready"), versions_[place].id);
  SHARDSWEEP_TRY(write_file_durably(mark_of(place, "broken"), failed));
  unbuilt_.emplace(place, std::move(failed));
  return {};
}

Result<fs::path> BisectWorkshop::starter() const {
  const auto file = folder_ / "start";
  const std::string text = fmt::format("#!/bin/sh\nexec {}/\"${{BISECT:-{}}}\"/{} \"$@\"\n",
      shell_quoted(folder_.string()), versions_.front().name, shell_quoted(hook_.product));
  // An attempt of an earlier call may be starting it at this moment.
  SHARDSWEEP_TRY(write_file_durably(file, text, Readers::owner_starts));
  return file;
}

}  // namespace shardsweep
