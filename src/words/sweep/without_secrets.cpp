// SPDX-License-Identifier: Apache-2.0
#include "sweep/without_secrets.hpp"

#include "text/secrets.hpp"

#include <utility>

namespace shardsweep {
namespace {

template <class Variables>
void hide(Variables& variables) {
  for (auto& [name, value] : variables) {
    if (may_be_secret(name)) value = hidden_value;
  }
}

}  // namespace

SweepSpec without_secrets(SweepSpec sweep) {
  hide(sweep.env);
  hide(sweep.container.env);
  return sweep;
}

}  // namespace shardsweep
