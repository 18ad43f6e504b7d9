// SPDX-License-Identifier: Apache-2.0
// What a device needs for cp above 1 and for experts. Rules refuse both where a device has not
// defined it.
#include "device.hpp"

#include "error.hpp"

namespace shardbench {
namespace {

[[noreturn]] void without_context() {
  fail(ErrorClass::internal, "this device has no kernels for context parallelism");
}

[[noreturn]] void without_experts() {
  fail(ErrorClass::internal, "this device has no kernels for a mixture of experts");
}

}  // namespace

void Device::rope_at(void*, const AttentionShape&, const Positions&, Rotation) {
  without_context();
}

void Device::attend_more(const MoreKeys&, const AttentionShape&, const SeenKeys&) {
  without_context();
}

void Device::attend_more_backward(const MoreKeysGradient&, const AttentionShape&,
                                  const SeenKeys&) {
  without_context();
}

void Device::copy_columns(const Columns&) {
  without_context();
}

void Device::add_columns(const Columns&) {
  without_context();
}

void Device::route(const Route&, const RouteShape&) {
  without_experts();
}

void Device::route_backward(const RouteGradient&, const RouteShape&) {
  without_experts();
}

void Device::count_choices(void*, const std::int32_t*, i64, double, const RouteShape&) {
  without_experts();
}

void Device::gather_rows(void*, const void*, const std::int32_t*, i64, i64) {
  without_experts();
}

void Device::add_placed(void*, const Placed&) {
  without_experts();
}

void Device::placed_backward(void*, void*, const void*, const Placed&) {
  without_experts();
}

}  // namespace shardbench
