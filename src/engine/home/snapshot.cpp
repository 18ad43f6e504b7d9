// SPDX-License-Identifier: Apache-2.0
// Decision: A snapshot is made under a temporary name, synced and renamed to the hash of its
// content: a command that is killed leaves no half of one, and equal trees are kept once. The
// hash is part of a trial's identity.
#include "text/content_hash.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/snapshot.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view unfinished = ".new-";
constexpr int most_tries = 3;

/// Facts that show whether a file is unchanged.
struct Stamp {
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

struct TreeEntry {
  Stamp stamp;
  bool link = false;
  bool program = false;  ///< true: executable
  std::string target{};  ///< target of a link, as it is in the copy
  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};
using Entries = std::map<std::string, TreeEntry>;  ///< entries by name below the root

tl::unexpected<Fault> system_fault(std::string_view what, const fs::path& path) {
  return fault(
      FaultKind::unavailable, fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

Stamp stamp_of(const struct stat& about) {
  constexpr std::int64_t second = 1'000'000'000;
  return {static_cast<std::uint64_t>(about.st_ino), static_cast<std::uint64_t>(about.st_size),
      about.st_mtim.tv_sec * second + about.st_mtim.tv_nsec,
      about.st_ctim.tv_sec * second + about.st_ctim.tv_nsec};
}

bool is_below(const fs::path& path, const fs::path& root) {
  const auto relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

/// A link within the tree points to the copy; one that leaves it points where it did.
std::string target_in_copy(const fs::path& link, const fs::path& root) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  const fs::path whole = (link.parent_path() / target).lexically_normal();
  if (!is_below(whole, root)) return whole.string();
  return whole.lexically_relative(link.parent_path()).string();
}

/// Lists a tree, within its limits.
class Listing {
 public:
  explicit Listing(const Tree& tree) : tree_(tree) {}

  Result<Entries> read() {
    if (tree_.files.empty()) {
      SHARDSWEEP_TRY(read_folder());
    } else {
      for (const auto& name : tree_.files)
        SHARDSWEEP_TRY(add(tree_.root / name));
    }
    return std::move(entries_);
  }

 private:
  Result<void> read_folder() {
    std::error_code error;
    fs::recursive_directory_iterator entry(tree_.root, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error))
      SHARDSWEEP_TRY(visit(entry));
    if (!error) return {};
    return fault(
        FaultKind::unavailable, "cannot read {}: {}", tree_.root.string(), error.message());
  }

  Result<void> visit(fs::recursive_directory_iterator& entry) {
    const auto name = entry->path().filename();
    if (name == ".git" || name == "__pycache__" || is_without(entry->path())) {
      entry.disable_recursion_pending();
      return {};
    }
    std::error_code ignored;
    const bool folder = entry->is_directory(ignored) && !entry->is_symlink(ignored);
    return folder ? Result<void>() : add(entry->path());
  }

  [[nodiscard]] bool is_without(const fs::path& path) const {
    return std::any_of(tree_.without.begin(), tree_.without.end(),
        [&](const fs::path& one) { return path.native().starts_with(one.native()); });
  }

  /// Sockets, pipes and devices are no programs. A file of the list may be gone.
  Result<void> add(const fs::path& path) {
    struct stat about {};
    if (::lstat(path.c_str(), &about) != 0) {
      if (errno == ENOENT) return {};
      return system_fault("cannot read", path);
    }
    const bool link = S_ISLNK(about.st_mode);
    if ((!link && !S_ISREG(about.st_mode)) || is_without(path)) return {};
    TreeEntry entry{stamp_of(about), link, (about.st_mode & S_IXUSR) != 0,
        link ? target_in_copy(path, tree_.root) : std::string()};
    bytes_ += link ? 0 : entry.stamp.bytes;
    largest_ = std::max(largest_, std::pair(entry.stamp.bytes, path.string()));
    entries_.insert_or_assign(
        path.lexically_relative(tree_.root).generic_string(), std::move(entry));
    return check();
  }

  [[nodiscard]] Result<void> check() const {
    if (bytes_ <= most_tree_bytes && entries_.size() <= most_tree_files) return {};
    return fault(FaultKind::invalid_input,
        "the folder {} is too large to be copied with its programs: it has more than "
        "{}. The largest file "
        "so far is {} ({}). Take data and results out of it, name another 'cwd', or "
        "write 'snapshot: git' or 'snapshot: none'.",
        tree_.root.string(),
        bytes_ > most_tree_bytes ? size_text(most_tree_bytes)
                                 : fmt::format("{} files", most_tree_files),
        largest_.second, size_text(largest_.first));
  }

  const Tree& tree_;
  Entries entries_;
  std::uint64_t bytes_ = 0;
  std::pair<std::uint64_t, std::string> largest_;
};

/// A descriptor that is closed.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

Result<void> write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  if (const int error = fail_point_error("snapshot.write"); error != 0) {
    errno = error;
    return system_fault("cannot write", path);
  }
  while (!bytes.empty()) {
    const auto written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_fault("cannot write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// The content's hash. `to`: empty, or where the copy goes.
Result<std::string> read_once(const fs::path& from, const fs::path& to, Stamp& seen) {
  constexpr std::size_t block = 1 << 20;
  const OpenFile source(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!source.valid()) return system_fault("cannot read", from);
  const OpenFile target(to.empty()
          ? -1
          : ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                S_IRUSR | S_IWUSR));
  if (!to.empty() && !target.valid()) return system_fault("cannot write", to);
  Fnv128 hash;
  std::string bytes(block, '\0');
  std::uint64_t sum = 0;
  // A file that grows while it is read has changed, however long it grows.
  while (sum <= most_tree_bytes) {
    const auto got = ::read(source.number(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_fault("cannot read", from);
    if (got == 0) break;
    const std::string_view part(bytes.data(), static_cast<std::size_t>(got));
    hash.add(part);
    sum += part.size();
    if (target.valid()) SHARDSWEEP_TRY(write_all(target.number(), part, to));
  }
  if (target.valid() && ::fsync(target.number()) != 0) return system_fault("cannot write", to);
  struct stat about {};
  if (::fstat(source.number(), &about) != 0) return system_fault("cannot read", from);
  seen = stamp_of(about);
  return hash.hex();
}

Result<std::string> read_at_rest(const fs::path& from, const fs::path& to, TreeEntry& entry) {
  for (int tries = 0; tries < most_tries; ++tries) {
    Stamp seen;
    SHARDSWEEP_ASSIGN(auto hash, read_once(from, to, seen));
    if (std::exchange(entry.stamp, seen) == seen) return hash;
  }
  return fault(FaultKind::unavailable,
      "{} changes while it is copied for the snapshot. Submit again when "
      "nobody writes into the tree.",
      from.string());
}

Result<void> make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return fault(
      FaultKind::unavailable, fmt::format("cannot make {}: {}", folder.string(), error.message()));
}

Result<void> sync_folder(const fs::path& folder) {
  const OpenFile opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.valid() || ::fsync(opened.number()) != 0) return system_fault("cannot write", folder);
  return {};
}

/// Protects a copy, which only the user's own hand may change.
Result<void> protect(const fs::path& copy, bool program) {
  const mode_t mode = program ? S_IRUSR | S_IXUSR : S_IRUSR;
  return ::chmod(copy.c_str(), mode) == 0 ? Result<void>() : system_fault("cannot write", copy);
}

/// The hash of a file or the target of a link. `copy`: empty, or where it goes.
Result<std::string> content_of(const fs::path& file, TreeEntry& entry, const fs::path& copy) {
  if (entry.link) {
    if (!copy.empty() && ::symlink(entry.target.c_str(), copy.c_str()) != 0)
      return system_fault("cannot write", copy);
    return entry.target;
  }
  SHARDSWEEP_ASSIGN(auto hash, read_at_rest(file, copy, entry));
  if (!copy.empty()) SHARDSWEEP_TRY(protect(copy, entry.program));
  return hash;
}

std::string manifest_line(
    const std::string& name, const TreeEntry& entry, const std::string& content) {
  const char kind = entry.program ? 'x' : 'f';
  return fmt::format("{} {}:{} {}\n", entry.link ? 'l' : kind, name.size(), name, content);
}

/// Notes which there are, `to` among them: each is made durable in the end.
Result<void> make_folders_above(
    const fs::path& copy, const fs::path& to, std::set<fs::path>& folders) {
  fs::path folder = copy.parent_path();
  if (folders.contains(folder)) return {};
  SHARDSWEEP_TRY(make_folders(folder));
  while (folders.insert(folder).second && folder != to)
    folder = folder.parent_path();
  return {};
}

/// Hashes a tree, and copies it where `to` is not empty.
Result<std::string> hash_of(const Tree& tree, Entries& entries, const fs::path& to) {
  Fnv128 all;
  std::set<fs::path> folders;
  for (auto& [name, entry] : entries) {
    const fs::path copy = to.empty() ? fs::path() : to / name;
    if (!to.empty()) SHARDSWEEP_TRY(make_folders_above(copy, to, folders));
    SHARDSWEEP_ASSIGN(const auto content, content_of(tree.root / name, entry, copy));
    all.add(manifest_line(name, entry, content));
  }
  if (!to.empty()) fail_point("snapshot.copied");
  for (const auto& folder : folders)
    SHARDSWEEP_TRY(sync_folder(folder));
  return all.hex();
}

/// Hash of a tree that stayed unchanged while it was read and copied; tries a few times.
Result<std::string> whole_hash(const Tree& tree, const fs::path& to) {
  for (int tries = 0; tries < most_tries; ++tries) {
    std::error_code ignored;
    if (!to.empty()) fs::remove_all(to, ignored);
    if (!to.empty()) SHARDSWEEP_TRY(make_folders(to));
    SHARDSWEEP_ASSIGN(Entries before, Listing(tree).read());
    if (before.empty())
      return fault(FaultKind::invalid_input, "there is no file to copy in {}", tree.root.string());
    if (!to.empty()) fail_point("snapshot.listed");
    SHARDSWEEP_ASSIGN(auto hash, hash_of(tree, before, to));
    SHARDSWEEP_ASSIGN(const Entries after, Listing(tree).read());
    if (before == after) return hash;
  }
  return fault(FaultKind::unavailable,
      "the tree {} changes while it is copied for the snapshot. Submit "
      "again when nobody writes into it.",
      tree.root.string());
}

/// Removes copies of killed commands: no copy takes an hour.
void remove_unfinished(const fs::path& folder) {
  constexpr std::chrono::hours old{1};
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().native().starts_with(unfinished)) continue;
    std::error_code ignored;
    const auto written = fs::last_write_time(entry->path(), ignored);
    if (!ignored && fs::file_time_type::clock::now() - written > old)
      fs::remove_all(entry->path(), ignored);
  }
}

/// Moves a copy to the place that its hash names. An existing copy there is the same; it becomes as
/// young as a new one, so that `gc` keeps it for its command.
Result<void> move_into_place(const fs::path& made, const fs::path& place) {
  if (::rename(made.c_str(), place.c_str()) == 0) return sync_folder(place.parent_path());
  const int why = errno;
  if (why == ENOTEMPTY || why == EEXIST) {
    std::error_code ignored;
    fs::last_write_time(place, fs::file_time_type::clock::now(), ignored);
    return {};
  }
  errno = why;
  return system_fault("cannot make", place);
}

}  // namespace

fs::path snapshot_tree(const Home& home, const std::string& hash) {
  return home.snapshots() / hash / "tree";
}

Result<std::string> tree_hash(const Tree& tree) {
  return whole_hash(tree, {});
}

Result<std::string> take_snapshot(const Home& home, const Tree& tree) {
  SHARDSWEEP_TRY(make_own_folder(home.snapshots()));
  remove_unfinished(home.snapshots());
  const fs::path made = home.snapshots() / (std::string(unfinished) + random_hex(12));
  SHARDSWEEP_TRY(make_folders(made));
  auto hash = whole_hash(tree, made / "tree");
  Result<void> kept;
  if (hash && !tree.origin.empty()) kept = write_own_file(made / "origin", tree.origin);
  if (hash && kept) kept = sync_folder(made);
  if (hash && kept) fail_point("snapshot.synced");
  if (hash && kept) kept = move_into_place(made, home.snapshots() / *hash);
  if (hash && kept) fail_point("snapshot.renamed");
  std::error_code ignored;
  fs::remove_all(made, ignored);
  if (!kept) return tl::unexpected<Fault>(kept.error());
  return hash;
}

}  // namespace shardsweep
