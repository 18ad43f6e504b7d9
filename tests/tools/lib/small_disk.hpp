// SPDX-License-Identifier: Apache-2.0
// A real file system of a few pages, which can be filled: a tmpfs in a mount namespace of this
// process's own. As root alone.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

namespace shardsweep::test {

class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size) {
    std::string name = (std::filesystem::temp_directory_path() / "disk.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    // What is mounted here nobody else sees.
    mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("disk", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// False where mounting is not permitted.
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void fill() const {
    const int file = ::open((path_ / "fill").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::array<char, 4096> page{};
    while (::write(file, page.data(), page.size()) > 0) {
    }
    ::close(file);
  }
  void empty() const { ::unlink((path_ / "fill").c_str()); }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

}  // namespace shardsweep::test
