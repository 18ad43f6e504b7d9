// SPDX-License-Identifier: Apache-2.0
// Taking a submission over: its rows are copied into staging tables in bounded pieces, and one
// last transaction makes of them what the sweep is now (DESIGN §5, Identity).
#pragma once

#include "store/inbox_file.hpp"

#include <shardsweep/store.hpp>

#include <filesystem>
#include <functional>

namespace shardsweep::sqlite {

/// Called first in each transaction: throws where this process may no longer write.
using CheckEpoch = std::function<void()>;

[[nodiscard]] Store::InboxProgress accept(Database& database, const std::filesystem::path& file,
    Timestamp now, std::int64_t rows, const CheckEpoch& check_epoch);

}  // namespace shardsweep::sqlite
