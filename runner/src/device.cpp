// SPDX-License-Identifier: Apache-2.0
// What a device needs for cp above 1. Rules refuse cp where a device has not defined it.
#include "device.hpp"

#include "error.hpp"

namespace shardbench {
namespace {

[[noreturn]] void without_context() {
  fail(ErrorClass::internal, "this device has no kernels for context parallelism");
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

}  // namespace shardbench
