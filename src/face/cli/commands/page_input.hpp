// SPDX-License-Identifier: Apache-2.0
// What pages are made of, as far as `report` and `heatmap` share it.
#pragma once

#include "cli/command.hpp"
#include "report/report_page.hpp"

#include <shardsweep/results.hpp>

namespace shardsweep {

/// The facts of the selected sweeps, their clusters, and when the page was made. The texts of
/// sweep files are as they are stored: who prints them hides secrets first.
[[nodiscard]] Result<ReportInput> page_input(
    const Session& session, Reader& reader, const Selection& selection);

/// Sentence that says when a page was made, and by which version.
[[nodiscard]] std::string made_text(const Session& session);

/// The line below a picture; without the trials, of which there may be a million.
[[nodiscard]] Result<std::string> source_of(
    const Session& session, Reader& reader, const Selection& selection);

}  // namespace shardsweep
