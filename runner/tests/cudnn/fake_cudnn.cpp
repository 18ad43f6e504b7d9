// SPDX-License-Identifier: Apache-2.0
// A libcudnn.so.9 that computes nothing: it writes down each descriptor as it is finalized and
// each run. FAKE_CUDNN_VERSION is its version, FAKE_CUDNN_ENGINES the engines that it has for a
// graph, of which the first cannot be built; FAKE_CUDNN_CREATE what cudnnCreate answers;
// FAKE_CUDNN_WORKSPACE the bytes that a plan asks for, of which a run uses each.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Descriptor {
  int kind = 0;
  std::map<int, std::vector<std::int64_t>> values;
  bool finalized = false;
};

std::string& log() {
  static std::string text;
  return text;
}

long from_environment(const char* name, long otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atol(value);
}

constexpr int bad_param = 2000;
constexpr int not_supported = 3000;
constexpr int plan_kind = 5;
constexpr int tensor_kind = 17;
constexpr int engine_results = 202;
constexpr int engine_config = 401;
constexpr int workspace_size = 402;
constexpr int config_workspace_size = 303;
constexpr int pack_workspace = 1003;

int living_handles = 0;

std::int64_t workspace_bytes() {
  const char* value = std::getenv("FAKE_CUDNN_WORKSPACE");
  return value == nullptr ? 4096 : std::atol(value);
}

std::size_t size_of(int type) {
  if (type == 2 || type == 24) return 1;                              // boolean, text
  return type == 1 || type == 8 || type == 14 || type == 18 ? 4 : 8;  // enums; the rest
}

void write_down(const Descriptor& d) {
  log().append(std::to_string(d.kind)).append(":");
  for (const auto& [name, values] : d.values) {
    // Addresses differ from run to run.
    const bool told = d.kind == tensor_kind || name < 700;
    log().append(" ").append(std::to_string(name)).append("=");
    for (const std::int64_t value : values)
      log().append(told ? std::to_string(value) : std::string("*")).append(",");
  }
  log() += "\n";
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the library's names.
extern "C" {

const char* fake_cudnn_log() {
  return log().c_str();
}
void fake_cudnn_forget() {
  log().clear();
}
int fake_cudnn_handles() {
  return living_handles;
}

std::size_t cudnnGetVersion() {
  return static_cast<std::size_t>(from_environment("FAKE_CUDNN_VERSION", 91900));
}
const char* cudnnGetErrorString(int status) {
  return status == not_supported ? "NOT_SUPPORTED" : "BAD_PARAM";
}
int cudnnCreate(void** handle) {
  static int instance = 0;
  *handle = &instance;
  const auto answer = static_cast<int>(from_environment("FAKE_CUDNN_CREATE", 0));
  if (answer == 0) ++living_handles;
  return answer;
}
int cudnnDestroy(void*) {
  --living_handles;
  return 0;
}
int cudnnSetStream(void*, void* stream) {
  log() += stream == nullptr ? "stream none\n" : "stream\n";
  return 0;
}

int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  *descriptor = new Descriptor{kind, {}, false};
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return 0;
}
int cudnnBackendSetAttribute(
    void* descriptor, int name, int type, std::int64_t count, const void* values) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (d.finalized) return bad_param;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t value = 0;
    std::memcpy(&value,
        static_cast<const char*>(values) + static_cast<std::size_t>(i) * size_of(type),
        size_of(type));
    d.values[name].push_back(value);
  }
  return 0;
}
int cudnnBackendFinalize(void* descriptor) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (d.kind == plan_kind) {
    void* config = nullptr;
    std::memcpy(&config, d.values[engine_config].data(), sizeof config);
    if (static_cast<Descriptor*>(config)->values[0].at(0) == 0) return not_supported;
  }
  d.finalized = true;
  write_down(d);
  return 0;
}
int cudnnBackendGetAttribute(
    void*, int name, int, std::int64_t most, std::int64_t* count, void* values) {
  if (name == workspace_size || name == config_workspace_size) {
    const std::int64_t bytes = workspace_bytes();
    *count = 1;
    std::memcpy(values, &bytes, sizeof bytes);
    return 0;
  }
  if (name != engine_results) return bad_param;
  *count = from_environment("FAKE_CUDNN_ENGINES", 2);
  if (*count > most) *count = most;
  for (std::int64_t i = 0; i < *count; ++i)
    static_cast<Descriptor**>(values)[i]->values[0] = {i};
  return 0;
}
int cudnnBackendExecute(void*, void* plan, void* pack) {
  const auto& p = *static_cast<Descriptor*>(plan);
  const auto& v = *static_cast<Descriptor*>(pack);
  if (!p.finalized || !v.finalized) return bad_param;
  // Check the workspace as an engine would: it has to exist, and to belong to this run alone.
  void* workspace = nullptr;
  std::memcpy(&workspace, v.values.at(pack_workspace).data(), sizeof workspace);
  if (std::getenv("FAKE_CUDNN_WORKSPACE") != nullptr)
    std::memset(workspace, 0xff, static_cast<std::size_t>(workspace_bytes()));
  log().append("run of ").append(std::to_string(v.values.at(1000).size())).append("\n");
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
