// SPDX-License-Identifier: Apache-2.0
#include "nccl_table.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace shardbench {
namespace {

constexpr const char* default_library = "libnccl.so.2";
constexpr std::size_t most_settings = 64;
constexpr std::size_t longest_value = 256;

/// Puts the library's function `name` into the table; else names it as missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  /// Null if the library has none.
  template <typename Function>
  void look_for(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }
  template <typename Function>
  void find(Function& function, const char* name) {
    look_for(function, name);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string find_all(void* library, NcclTable& table) {
  Finder f(library);
  f.find(table.get_unique_id, "ncclGetUniqueId");
  f.find(table.comm_init_rank_config, "ncclCommInitRankConfig");
  f.find(table.comm_get_async_error, "ncclCommGetAsyncError");
  f.find(table.comm_abort, "ncclCommAbort");
  f.find(table.comm_finalize, "ncclCommFinalize");
  f.find(table.comm_destroy, "ncclCommDestroy");
  f.find(table.group_start, "ncclGroupStart");
  f.find(table.group_end, "ncclGroupEnd");
  f.find(table.all_reduce, "ncclAllReduce");
  f.find(table.reduce_scatter, "ncclReduceScatter");
  f.find(table.all_gather, "ncclAllGather");
  f.find(table.broadcast, "ncclBroadcast");
  f.find(table.send, "ncclSend");
  f.find(table.receive, "ncclRecv");
  f.find(table.get_error_string, "ncclGetErrorString");
  f.find(table.get_last_error, "ncclGetLastError");
  f.look_for(table.comm_register, "ncclCommRegister");
  f.look_for(table.comm_deregister, "ncclCommDeregister");
  return f.missing();
}

NcclOrder order_of(int version) {
  const char* implicit = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (implicit == nullptr) return NcclOrder::by_room;
  const bool wanted = std::string_view(implicit) == "1";
  return wanted && version >= nccl_orders_launches_from ? NcclOrder::by_nccl : NcclOrder::by_events;
}

// NCCL itself takes no more, in any version so far.
constexpr int most_blocks = 64;

}  // namespace

std::string_view nccl_order_name(NcclOrder order) {
  constexpr std::array<std::string_view, 3> names{"by_room", "by_nccl", "by_events"};
  return names[static_cast<std::size_t>(order)];
}

std::optional<int> blocks_for_room(int streams, int multiprocessors) {
  if (streams <= 1) return std::nullopt;
  return std::clamp(multiprocessors / streams, 1, most_blocks);
}

NcclLibrary load_nccl() {
  const char* asked = std::getenv("SHARDBENCH_NCCL");
  const std::string path = asked != nullptr && *asked != '\0' ? asked : default_library;
  NcclLibrary nccl;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    nccl.refusal = std::string("NCCL can't be loaded: ") + ::dlerror() +
        " (SHARDBENCH_NCCL can name the library)";
    return nccl;
  }
  Finder(library).find(nccl.table.get_version, "ncclGetVersion");
  if (nccl.table.get_version == nullptr ||
      nccl.table.get_version(&nccl.version) != NcclResult::success) {
    nccl.refusal = "'" + path + "' does not report NCCL's version";
    return nccl;
  }
  if (nccl.version < nccl_oldest_version) {
    nccl.refusal = "'" + path + "' is NCCL " + nccl_version_name(nccl.version) + ", and " +
        nccl_version_name(nccl_oldest_version) + " is the oldest supported version";
    return nccl;
  }
  nccl.order = order_of(nccl.version);
  const std::string missing = find_all(library, nccl.table);
  if (!missing.empty()) nccl.refusal = "'" + path + "' has no function " + missing;
  return nccl;
}

std::string nccl_version_name(int version) {
  // Versions up to 2.8 have the minor version in the hundreds; later ones have the major in the ten
  // thousands.
  const int unit = version < 10000 ? 1000 : 10000;
  return std::to_string(version / unit) + '.' + std::to_string(version % unit / 100) + '.' +
      std::to_string(version % 100);
}

std::vector<std::pair<std::string, std::string>> nccl_settings() {
  std::vector<std::pair<std::string, std::string>> settings;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const std::size_t cut = entry.find('=');
    if (entry.substr(0, 5) != "NCCL_" || cut == std::string_view::npos) continue;
    settings.emplace_back(entry.substr(0, cut), entry.substr(cut + 1, longest_value));
  }
  std::sort(settings.begin(), settings.end());
  settings.resize(std::min(settings.size(), most_settings));
  return settings;
}

}  // namespace shardbench
