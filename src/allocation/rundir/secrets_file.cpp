// SPDX-License-Identifier: Apache-2.0
#include "machine/descriptor.hpp"
#include "rundir/durable.hpp"
#include "text/secrets.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/secrets_file.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_secret_bytes = std::size_t{4} << 20;
constexpr std::size_t mask_piece = std::size_t{1} << 20;

/// Piece by piece, each with the beginning of the next one: a value may lie across.
Result<void> mask_file(const fs::path& path, const Secrets& secrets, std::size_t longest) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // A file that its owner may not write (a recorder's copy) was not written by a trainer.
  if (!file.valid() && errno == EACCES) return {};
  if (!file.valid()) return errno_error("cannot mask " + path.string());
  std::string text;
  for (off_t at = 0;; at += static_cast<off_t>(mask_piece)) {
    text.resize(mask_piece + longest);
    const ssize_t got = ::pread(file.get(), text.data(), text.size(), at);
    if (got < 0) return errno_error("cannot mask " + path.string());
    text.resize(static_cast<std::size_t>(got));
    const std::string clean = masked(text, secrets);
    if (clean != text && ::pwrite(file.get(), clean.data(), clean.size(), at) != got)
      return errno_error("cannot mask " + path.string());
    if (text.size() < mask_piece + longest) return {};
  }
}

}  // namespace

// Format of /proc/PID/environ: "NAME=value", each followed by a zero byte. A value may have any
// other byte.
Result<void> write_secrets(const fs::path& file, const Secrets& secrets) {
  std::error_code error;
  if (secrets.empty()) {
    fs::remove(file, error);
    return {};
  }
  SHARDSWEEP_TRY(make_own_folder(file.parent_path()));
  std::string text;
  for (const auto& [name, value] : secrets)
    text.append(name).append("=").append(value).push_back('\0');
  return write_own_file(file, text, Readers::owner);
}

Result<Secrets> read_secrets(const fs::path& file) {
  if (!is_there(file)) return Secrets{};
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(file, most_secret_bytes));
  Secrets secrets;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\0', at);
    const std::size_t equals = text.find('=', at);
    if (end == std::string::npos || equals >= end)
      return fault(FaultKind::corrupt, file.string() + " is damaged");
    secrets.emplace(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
    at = end + 1;
  }
  return secrets;
}

Result<Secrets> secrets_of(const AttemptSpec& spec) {
  if (spec.secrets.empty()) return Secrets{};
  SHARDSWEEP_ASSIGN(const Secrets all, read_secrets(spec.secrets_file));
  Secrets wanted;
  for (const std::string& name : spec.secrets) {
    const auto found = all.find(name);
    if (found == all.end())
      return fault(FaultKind::unavailable,
          "{} does not hold the value of {}: export that variable in your shell, then "
          "submit the sweep file again or run `shardsweep resume`",
          spec.secrets_file, name);
    wanted.insert(*found);
  }
  return wanted;
}

Result<AttemptSpec> with_secrets(AttemptSpec spec) {
  SHARDSWEEP_ASSIGN(const Secrets secrets, secrets_of(spec));
  spec.env.insert(secrets.begin(), secrets.end());
  return spec;
}

Result<void> mask_files(const fs::path& folder, const Secrets& secrets) {
  std::size_t longest = 0;
  for (const auto& [name, value] : secrets)
    longest = std::max(longest, value.size());
  if (longest < shortest_masked) return {};
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->symlink_status(error).type() != fs::file_type::regular) continue;
    SHARDSWEEP_TRY(mask_file(it->path(), secrets, longest));
  }
  if (error) return fault(FaultKind::unavailable, folder.string() + ": " + error.message());
  return {};
}

}  // namespace shardsweep
