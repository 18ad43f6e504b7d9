// SPDX-License-Identifier: Apache-2.0
// A file system that stands in for NFS: one folder, mounted once for each of two "hosts". Each
// host has caches of its own, as the Linux client has them:
//  - attributes are believed for `--cache` seconds, unless the host changed the file itself;
//  - a name that was not there stays so until its folder's attributes are asked for again;
//  - open(2) of a file or a folder asks the server (close-to-open), unless `--no-cto` is given;
//  - locks hold on one host alone.
// Faults come from a file of rules, which is read again when it changes:
//   HOST OPERATION WHAT PATTERN       such as  `a write ENOSPC *`  or  `b open delay=2.5
//   */spec.json`
// WHAT `stale` answers ESTALE to every file that was opened before the rule was written, as
// after a server's restart. HOST and OPERATION may be `*`; PATTERN is fnmatch's, over the path
// below the mount. The number of operations of each host is written to `--counts`, twice a
// second.
#define FUSE_USE_VERSION 35

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

bool same_time(const timespec& one, const timespec& two) {
  return one.tv_sec == two.tv_sec && one.tv_nsec == two.tv_nsec;
}

// ---- faults

struct Rule {
  std::string host;
  std::string operation;
  int error = 0;
  double delay_s = 0;
  bool stale = false;  ///< of files that were open before
  std::string pattern;
};

const std::map<std::string, int> errors{{"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EIO", EIO},
    {"ESTALE", ESTALE}, {"EROFS", EROFS}, {"EACCES", EACCES}, {"ENOENT", ENOENT}};

class Rules {
 public:
  explicit Rules(std::string file) : file_(std::move(file)) {}

  /// 0, or a negated error. Sleeps where a rule says so.
  int meet(const std::string& host, const std::string& operation, const std::string& path,
      double opened_s) {
    double delay_s = 0;
    int error = 0;
    {
      const std::lock_guard guard(mutex_);
      read_again();
      for (const Rule& rule : rules_) {
        const bool meant = (rule.host == "*" || rule.host == host) &&
            (rule.operation == "*" || rule.operation == operation) &&
            ::fnmatch(rule.pattern.c_str(), path.c_str(), 0) == 0;
        if (!meant || (rule.stale && opened_s > read_at_s_)) continue;
        delay_s += rule.delay_s;
        if (error == 0) error = rule.error;
      }
    }
    if (delay_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
    return -error;
  }

 private:
  void read_again() {
    struct stat about {};
    if (::stat(file_.c_str(), &about) != 0) {
      rules_.clear();
      read_ = {};
      return;
    }
    if (about.st_ino == read_.st_ino && same_time(about.st_mtim, read_.st_mtim)) return;
    read_ = about;
    read_at_s_ = now_s();
    rules_.clear();
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
      Rule rule;
      std::string what;
      std::istringstream words(line);
      if (!(words >> rule.host >> rule.operation >> what >> rule.pattern)) continue;
      if (what.rfind("delay=", 0) == 0) {
        rule.delay_s = std::atof(what.c_str() + 6);
      } else if (what == "stale") {
        rule.stale = true;
        rule.error = ESTALE;
      } else if (errors.count(what) != 0) {
        rule.error = errors.at(what);
      } else {
        std::fprintf(stderr, "scripted_nfs: no such fault: %s\n", what.c_str());
        continue;
      }
      rules_.push_back(rule);
    }
  }

  std::string file_;
  std::mutex mutex_;
  struct stat read_ {};
  double read_at_s_ = 0;
  std::vector<Rule> rules_;
};

// ---- one host's caches

class Host {
 public:
  Host(std::string name, std::string backing, double cache_s, bool cto, Rules& rules)
      : name_(std::move(name)),
        backing_(std::move(backing)),
        cache_s_(cache_s),
        cto_(cto),
        rules_(rules) {}

  [[nodiscard]] std::string real(const std::string& path) const { return backing_ + path; }

  /// `opened_s`: of operations on an open file.
  int begin(const char* operation, const std::string& path, double opened_s = now_s() + 1) {
    {
      const std::lock_guard guard(mutex_);
      ++counts_[operation];
    }
    return rules_.meet(name_, operation, path, opened_s);
  }

  /// 0 or a negated error, from the cache where it is still believed.
  int attributes(const std::string& path, struct stat& about) {
    const std::lock_guard guard(mutex_);
    return look(path, false, about);
  }

  /// open(2): the server is asked, but for a name that is known not to be there.
  int open_attributes(const std::string& path, struct stat& about) {
    const std::lock_guard guard(mutex_);
    return look(path, cto_, about);
  }

  /// opendir(3): what was not there may be, where the folder has changed.
  void open_folder(const std::string& path) {
    const std::lock_guard guard(mutex_);
    if (cto_ || !believed(path)) ask_folder(path);
  }

  /// Before an own change of a folder: what others changed in it becomes visible with it.
  void before_change(const std::string& path) {
    const std::lock_guard guard(mutex_);
    ask_folder(parent_of(path));
  }

  void after_change(const std::string& path) {
    const std::lock_guard guard(mutex_);
    entries_.erase(path);
    const std::string parent = parent_of(path);
    struct stat about {};
    if (::lstat(real(parent).c_str(), &about) != 0) return;
    folders_[parent] = {about.st_mtim, now_s()};
    entries_.erase(parent);
  }

  /// After an own write.
  void changed(const std::string& path) {
    const std::lock_guard guard(mutex_);
    struct stat about {};
    if (::lstat(real(path).c_str(), &about) == 0) entries_[path] = {true, about, now_s()};
  }

  /// A folder that has moved takes all below it along.
  void forget_below(const std::string& path) {
    const std::lock_guard guard(mutex_);
    const std::string prefix = path + "/";
    std::erase_if(entries_, [&](const auto& one) { return one.first.rfind(prefix, 0) == 0; });
    std::erase_if(folders_,
        [&](const auto& one) { return one.first == path || one.first.rfind(prefix, 0) == 0; });
  }

  void write_counts(std::ostream& out) {
    const std::lock_guard guard(mutex_);
    for (const auto& [operation, count] : counts_)
      out << name_ << ' ' << operation << ' ' << count << '\n';
  }

 private:
  struct Entry {
    bool there = false;
    struct stat about {};
    double asked_s = 0;
  };
  struct Folder {
    timespec changed{};
    double asked_s = 0;
  };

  [[nodiscard]] bool believed(const std::string& folder) const {
    const auto known = folders_.find(folder);
    return known != folders_.end() && now_s() - known->second.asked_s < cache_s_;
  }

  void ask_folder(const std::string& path) {
    struct stat about {};
    if (::lstat(real(path).c_str(), &about) != 0) {
      folders_.erase(path);
      return;
    }
    const auto known = folders_.find(path);
    const bool same = known != folders_.end() && same_time(known->second.changed, about.st_mtim);
    folders_[path] = {about.st_mtim, now_s()};
    if (same) return;
    std::erase_if(entries_,
        [&](const auto& one) { return !one.second.there && parent_of(one.first) == path; });
  }

  int look(const std::string& path, bool ask, struct stat& about) {
    const std::string parent = parent_of(path);
    if (!believed(parent)) ask_folder(parent);
    const auto known = entries_.find(path);
    if (known != entries_.end() && !known->second.there) return -ENOENT;
    if (known != entries_.end() && !ask && now_s() - known->second.asked_s < cache_s_) {
      about = known->second.about;
      return 0;
    }
    const bool there = ::lstat(real(path).c_str(), &about) == 0;
    const int error = there ? 0 : -errno;
    if (there || error == -ENOENT) entries_[path] = {there, about, now_s()};
    return error;
  }

  std::string name_;
  std::string backing_;
  double cache_s_;
  bool cto_;
  Rules& rules_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, Folder> folders_;
  std::map<std::string, std::int64_t> counts_;
};

Host& host() {
  return *static_cast<Host*>(::fuse_get_context()->private_data);
}

int answer(int result) {
  return result < 0 ? -errno : 0;
}

struct OpenFile {
  int descriptor = -1;
  double opened_s = now_s();
};

OpenFile& file_of(fuse_file_info* info) {
  return *reinterpret_cast<OpenFile*>(info->fh);
}

void keep(fuse_file_info* info, int descriptor) {
  info->fh = reinterpret_cast<std::uint64_t>(new OpenFile{descriptor});
}

// ---- operations

void* start(fuse_conn_info*, fuse_config* config) {
  // All caching is ours.
  config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
  config->use_ino = 1;
  return ::fuse_get_context()->private_data;
}

int get_attributes(const char* path, struct stat* about, fuse_file_info*) {
  if (const int error = host().begin("getattr", path)) return error;
  return host().attributes(path, *about);
}

template <class Act>
int change(const char* operation, const char* path, Act&& act) {
  if (const int error = host().begin(operation, path)) return error;
  host().before_change(path);
  const int result = answer(act(host().real(path)));
  host().after_change(path);
  return result;
}

int make_folder(const char* path, mode_t mode) {
  return change(
      "mkdir", path, [&](const std::string& real) { return ::mkdir(real.c_str(), mode); });
}
int remove_file(const char* path) {
  return change("unlink", path, [](const std::string& real) { return ::unlink(real.c_str()); });
}
int remove_folder(const char* path) {
  const int result =
      change("rmdir", path, [](const std::string& real) { return ::rmdir(real.c_str()); });
  if (result == 0) host().forget_below(path);
  return result;
}
int make_symlink(const char* target, const char* path) {
  return change(
      "symlink", path, [&](const std::string& real) { return ::symlink(target, real.c_str()); });
}
int rename_file(const char* from, const char* to, unsigned flags) {
  if (const int error = host().begin("rename", to)) return error;
  host().before_change(from);
  host().before_change(to);
  const int result = answer(
      ::renameat2(AT_FDCWD, host().real(from).c_str(), AT_FDCWD, host().real(to).c_str(), flags));
  host().forget_below(from);
  host().forget_below(to);
  host().after_change(from);
  host().after_change(to);
  return result;
}
int link_file(const char* from, const char* to) {
  const int result = change("link", to,
      [&](const std::string& real) { return ::link(host().real(from).c_str(), real.c_str()); });
  host().changed(from);
  return result;
}

template <class Act>
int alter(const char* operation, const char* path, Act&& act) {
  if (const int error = host().begin(operation, path)) return error;
  const int result = answer(act(host().real(path)));
  host().changed(path);
  return result;
}

int set_mode(const char* path, mode_t mode, fuse_file_info*) {
  return alter("chmod", path, [&](const std::string& real) { return ::chmod(real.c_str(), mode); });
}
int set_owner(const char* path, uid_t uid, gid_t gid, fuse_file_info*) {
  return alter(
      "chown", path, [&](const std::string& real) { return ::lchown(real.c_str(), uid, gid); });
}
int set_size(const char* path, off_t size, fuse_file_info*) {
  return alter(
      "truncate", path, [&](const std::string& real) { return ::truncate(real.c_str(), size); });
}
int set_times(const char* path, const timespec times[2], fuse_file_info*) {
  return alter("utimens", path, [&](const std::string& real) {
    return ::utimensat(AT_FDCWD, real.c_str(), times, AT_SYMLINK_NOFOLLOW);
  });
}

int read_link(const char* path, char* buffer, std::size_t size) {
  const ssize_t got = ::readlink(host().real(path).c_str(), buffer, size - 1);
  if (got < 0) return -errno;
  buffer[got] = '\0';
  return 0;
}

int open_file(const char* path, fuse_file_info* info) {
  if (const int error = host().begin("open", path)) return error;
  struct stat about {};
  if (const int error = host().open_attributes(path, about)) return error;
  const int descriptor = ::open(host().real(path).c_str(), info->flags | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  keep(info, descriptor);
  if ((info->flags & O_TRUNC) != 0) host().changed(path);
  return 0;
}

int create_file(const char* path, mode_t mode, fuse_file_info* info) {
  return change("create", path, [&](const std::string& real) {
    const int descriptor = ::open(real.c_str(), info->flags | O_CREAT | O_CLOEXEC, mode);
    if (descriptor >= 0) keep(info, descriptor);
    return descriptor < 0 ? -1 : 0;
  });
}

/// No more than this host knows to be there.
int read_file(
    const char* path, char* buffer, std::size_t size, off_t offset, fuse_file_info* info) {
  if (const int error = host().begin("read", path, file_of(info).opened_s)) return error;
  struct stat about {};
  if (host().attributes(path, about) == 0) {
    if (offset >= about.st_size) return 0;
    size = std::min(size, static_cast<std::size_t>(about.st_size - offset));
  }
  const ssize_t got = ::pread(file_of(info).descriptor, buffer, size, offset);
  return got < 0 ? -errno : static_cast<int>(got);
}

int write_file(
    const char* path, const char* buffer, std::size_t size, off_t offset, fuse_file_info* info) {
  if (const int error = host().begin("write", path, file_of(info).opened_s)) return error;
  const ssize_t written = ::pwrite(file_of(info).descriptor, buffer, size, offset);
  const int error = errno;
  host().changed(path);
  return written < 0 ? -error : static_cast<int>(written);
}

int sync_file(const char* path, int, fuse_file_info* info) {
  if (const int error = host().begin("fsync", path, file_of(info).opened_s)) return error;
  return answer(::fsync(file_of(info).descriptor));
}

int release_file(const char*, fuse_file_info* info) {
  ::close(file_of(info).descriptor);
  delete &file_of(info);
  return 0;
}

int about_system(const char* path, struct statvfs* about) {
  if (const int error = host().begin("statfs", path)) return error;
  return answer(::statvfs(host().real(path).c_str(), about));
}

int open_folder(const char* path, fuse_file_info*) {
  if (const int error = host().begin("opendir", path)) return error;
  host().open_folder(path);
  return 0;
}

int list_folder(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
    fuse_readdir_flags) {
  if (const int error = host().begin("readdir", path)) return error;
  DIR* const folder = ::opendir(host().real(path).c_str());
  if (folder == nullptr) return -errno;
  while (const dirent* entry = ::readdir(folder))
    fill(buffer, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  ::closedir(folder);
  return 0;
}

int sync_folder(const char* path, int, fuse_file_info*) {
  return host().begin("fsyncdir", path);
}

fuse_operations operations() {
  fuse_operations all{};
  all.init = start;
  all.getattr = get_attributes;
  all.readlink = read_link;
  all.mkdir = make_folder;
  all.unlink = remove_file;
  all.rmdir = remove_folder;
  all.symlink = make_symlink;
  all.rename = rename_file;
  all.link = link_file;
  all.chmod = set_mode;
  all.chown = set_owner;
  all.truncate = set_size;
  all.utimens = set_times;
  all.open = open_file;
  all.create = create_file;
  all.read = read_file;
  all.write = write_file;
  all.fsync = sync_file;
  all.release = release_file;
  all.statfs = about_system;
  all.opendir = open_folder;
  all.readdir = list_folder;
  all.fsyncdir = sync_folder;
  return all;
}

// ---- the program

/// Blocks until it is unmounted.
int serve(Host& host, const std::string& mount_point) {
  static const fuse_operations all = operations();
  std::string name = "scripted_nfs";
  std::string option = "-o";
  std::string options = "fsname=scripted_nfs,subtype=nfs";
  std::vector<char*> words{name.data(), option.data(), options.data()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  fuse* const session = ::fuse_new(&arguments, &all, sizeof all, &host);
  if (session == nullptr || ::fuse_mount(session, mount_point.c_str()) != 0) return 1;
  fuse_loop_config config{};
  config.max_idle_threads = 4;
  ::fuse_loop_mt(session, &config);
  ::fuse_unmount(session);
  ::fuse_destroy(session);
  return 0;
}

std::string value_of(int argc, char** argv, const std::string& name, const std::string& other) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == name) return argv[i + 1];
  }
  return other;
}

bool has(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == name) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string backing = value_of(argc, argv, "--folder", "");
  const std::string a = value_of(argc, argv, "--a", "");
  const std::string b = value_of(argc, argv, "--b", "");
  if (backing.empty() || a.empty() || b.empty()) {
    std::fputs(
        "usage: scripted_nfs --folder DIR --a MOUNT --b MOUNT [--cache SECONDS] [--no-cto]"
        " [--rules FILE] [--counts FILE]\n",
        stderr);
    return 2;
  }
  ::umask(0);
  Rules rules(value_of(argc, argv, "--rules", ""));
  const double cache_s = std::atof(value_of(argc, argv, "--cache", "3").c_str());
  const bool cto = !has(argc, argv, "--no-cto");
  Host first("a", backing, cache_s, cto, rules);
  Host second("b", backing, cache_s, cto, rules);
  const std::string counts = value_of(argc, argv, "--counts", "");
  if (!counts.empty()) {
    std::thread([&] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        const std::string fresh = counts + ".new";
        {
          std::ofstream out(fresh);
          first.write_counts(out);
          second.write_counts(out);
        }
        std::rename(fresh.c_str(), counts.c_str());
      }
    }).detach();
  }
  // Until both are unmounted.
  int result = 0;
  std::thread other([&] { result = serve(second, b); });
  const int own = serve(first, a);
  other.join();
  std::_Exit(own + result);
}
