// SPDX-License-Identifier: Apache-2.0
// The functions of fmt's library that the agent calls, compiled in: libfmt.so would bring
// libstdc++.so and libgcc_s.so along, and the images of compute nodes may have none of them.
// Files that are compiled together (SHARDSWEEP_UNITY) call more of them.
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <fmt/format.h>

#include <cstdint>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;

}  // namespace detail
FMT_END_NAMESPACE

namespace {

[[gnu::used]] std::string (*const kept)(fmt::string_view, fmt::format_args) = &fmt::vformat;
// Called at -O1 alone (scripts/quickstart).
[[gnu::used]] bool (*const kept_printable)(std::uint32_t) = &fmt::detail::is_printable;

}  // namespace
