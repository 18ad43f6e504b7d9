// SPDX-License-Identifier: Apache-2.0
// All that is known of trials and sweeps, as text.
#pragma once

#include "show/table_view.hpp"

#include <shardsweep/results.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// Sections as people read them: names and values of one thing below each other, attempts and
/// measurements one by one, without keys of the database.
[[nodiscard]] std::vector<Reader::Section> sections_for_people(
    const std::vector<Reader::Section>& sections);

/// table: a heading per trial or sweep, names and values below each other, attempts as blocks.
/// json: an array with an object per trial or sweep: its name and its sections. csv: the
/// sections' tables, each under its title.
[[nodiscard]] std::string sections_text(
    const std::vector<Reader::Section>& sections, const TableStyle& style);

}  // namespace shardsweep
