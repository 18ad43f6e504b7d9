// SPDX-License-Identifier: Apache-2.0
#include "cudnn/cudnn_table.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace shardbench {
namespace {

constexpr const char* usual_cudnn = "libcudnn.so.9";

/// The first function that the library lacks, else "".
std::string find_functions(void* library, CudnnTable& table) {
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  find(table.get_version, "cudnnGetVersion");
  find(table.create, "cudnnCreate");
  find(table.destroy, "cudnnDestroy");
  find(table.set_stream, "cudnnSetStream");
  find(table.get_error_string, "cudnnGetErrorString");
  find(table.create_descriptor, "cudnnBackendCreateDescriptor");
  find(table.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(table.set_attribute, "cudnnBackendSetAttribute");
  find(table.get_attribute, "cudnnBackendGetAttribute");
  find(table.finalize, "cudnnBackendFinalize");
  find(table.execute, "cudnnBackendExecute");
  return missing;
}

}  // namespace

CudnnLibrary load_cudnn() {
  const char* asked = std::getenv("SHARDBENCH_CUDNN");
  const std::string path = asked != nullptr && *asked != '\0' ? asked : usual_cudnn;
  CudnnLibrary cudnn;
  if (path == "off") {
    cudnn.refusal = "SHARDBENCH_CUDNN is off";
    return cudnn;
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    cudnn.refusal = std::string("cuDNN can't be loaded: ") + ::dlerror() +
        " (SHARDBENCH_CUDNN can name the library)";
    return cudnn;
  }
  const std::string missing = find_functions(library, cudnn.table);
  if (!missing.empty()) {
    cudnn.refusal = "'" + path + "' has no function " + missing;
    return cudnn;
  }
  cudnn.version = cudnn.table.get_version();
  if (cudnn.version < cudnn_oldest_version)
    cudnn.refusal = "'" + path + "' is cuDNN " + cudnn_version_name(cudnn.version) + ", and " +
        cudnn_version_name(cudnn_oldest_version) + " is the oldest supported version";
  return cudnn;
}

std::string cudnn_version_name(std::size_t version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
      std::to_string(version % 100);
}

}  // namespace shardbench
