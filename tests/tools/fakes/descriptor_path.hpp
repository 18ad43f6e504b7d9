// SPDX-License-Identifier: Apache-2.0
// For fakes that stand in front of libc: which file a descriptor means.
#pragma once

#include <limits.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>

/// Empty: nobody can say.
inline std::string path_of(int descriptor) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  char path[PATH_MAX];
  const ssize_t size = ::readlink(link, path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "";
}
