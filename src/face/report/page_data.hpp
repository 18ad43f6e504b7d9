// SPDX-License-Identifier: Apache-2.0
// The trials as the page's script reads them (page_data.js): a column is one value, numbers of
// a list of values, or texts of which each is told by how it differs from the one before. So
// 100,000 trials take some fifty bytes each.
#pragma once

#include "report/sections.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The element `<script type="application/json" id="data">`. Its rows are those of
/// `view.trials`.
[[nodiscard]] std::string data_element(const ReportView& view);

/// JSON for inside of a `<script>`: nothing in it ends or begins an element.
[[nodiscard]] std::string script_json(std::string_view text);

/// Lines that each have two digits (how many bytes of its beginning and of its end are those of
/// the line before) and what stands between these.
[[nodiscard]] std::string front_coded(const std::vector<std::string>& texts);

/// Cause that the page shows. Empty: the trial has a result, or its cause only names the line of an
/// imported table.
[[nodiscard]] std::string shown_cause(const ReportedTrial& trial);

}  // namespace shardsweep
