// SPDX-License-Identifier: Apache-2.0
// A communicator that leaves chosen operations out, as a runner would that forgot them: for
// showing that the equality tests notice.
#pragma once

#include "communication/communicator.hpp"

#include <functional>
#include <memory>

namespace shardbench {

/// An operation as a rank is about to issue it.
struct IssuedOperation {
  std::string group;
  Operation operation;
  Reduction reduction;
  i64 count;
  i64 ordinal;  // number among the operations of this group, from 0
};
using DropRule = std::function<bool(const IssuedOperation&)>;

/// Forwards to `inner` all operations except those that `drops`; every member must drop the same. A
/// dropped send leaves with the next one, in the place of its message.
std::unique_ptr<Communicator> make_dropping(
    std::unique_ptr<Communicator> inner, std::string group, DropRule drops);

}  // namespace shardbench
