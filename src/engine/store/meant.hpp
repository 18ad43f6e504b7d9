// SPDX-License-Identifier: Apache-2.0
// What a verb's names and expression mean, for the daemon and for those who only ask.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/store.hpp>

namespace shardsweep::sqlite {

/// See Store::select_trials().
[[nodiscard]] TrialSelection selected(
    Database& database, const std::vector<std::string>& names, const std::string& where);

}  // namespace shardsweep::sqlite
