// SPDX-License-Identifier: Apache-2.0
// The WebAssembly module's one entry.
#include "explore/explore.hpp"

#include <string>

/// The answer to a question (explore.hpp), both UTF-8 and ending in a zero byte. It is valid
/// until the next call.
extern "C" const char* shardsweep_explore(const char* question) {
  static std::string answer;
  answer = shardsweep::explore(question);
  return answer.c_str();
}
