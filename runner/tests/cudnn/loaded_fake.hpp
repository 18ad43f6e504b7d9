// SPDX-License-Identifier: Apache-2.0
// The fake cuDNN as a test uses it.
#pragma once

#include "cudnn/cudnn_table.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace shardbench {

/// The environment while a library is being used.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

inline CudnnLibrary load_fake() {
  const Variable path("SHARDBENCH_CUDNN", FAKE_CUDNN);
  return load_cudnn();
}

/// A function of the fake, which is loaded.
template <typename Function>
Function fake_function(const char* name) {
  void* library = ::dlopen(FAKE_CUDNN, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  void* function = ::dlsym(library, name);
  (void)::dlclose(library);
  REQUIRE(function != nullptr);
  return reinterpret_cast<Function>(function);
}

/// Lines of the fake's log since the last call.
inline std::string take_log() {
  std::string text = fake_function<const char* (*)()>("fake_cudnn_log")();
  fake_function<void (*)()>("fake_cudnn_forget")();
  return text;
}

}  // namespace shardbench
