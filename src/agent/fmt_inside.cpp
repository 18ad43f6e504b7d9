// SPDX-License-Identifier: Apache-2.0
// The one function of fmt's library that the agent calls, compiled in: libfmt.so would bring
// libstdc++.so and libgcc_s.so along, and the images of compute nodes may have none of them.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace {

[[gnu::used]] std::string (*const kept)(fmt::string_view, fmt::format_args) = &fmt::vformat;

}  // namespace
