// SPDX-License-Identifier: Apache-2.0
#include "rundir/claim.hpp"

#include "machine/checked_folder.hpp"

#include <shardsweep/fail_point.hpp>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace shardsweep {

Result<bool> claim_allocation(const AllocationPaths& allocation, const std::string& nonce) {
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::open(allocation.dir));
  const std::string claim = allocation.claim().filename().string();
  const std::string own = claim + "." + nonce;
  SHARDSWEEP_TRY(write_own_file(allocation.dir / own, nonce + "\n"));
  // Count the names of our own file instead of trusting link(2): over NFSv3 a retransmitted request
  // answers EEXIST to the one who made the link.
  const int in = folder.descriptor();
  errno = fail_point_error("rundir.claim");
  const bool failed = errno != 0 || ::linkat(in, own.c_str(), in, claim.c_str(), 0) != 0;
  const bool linked = !failed || errno == EEXIST;
  const Fault why = errno_fault("cannot claim " + allocation.dir.string());
  struct stat status {};
  fail_point("rundir.claimed");
  const bool known = ::fstatat(in, own.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  folder.remove(own);
  if (!linked) return tl::unexpected(why);
  if (!known) return errno_error("cannot stat " + (allocation.dir / own).string());
  return status.st_nlink == 2;
}

Result<std::string> random_nonce() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return errno_error("cannot get random bytes");
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace shardsweep
