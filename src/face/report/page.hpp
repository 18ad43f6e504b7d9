// SPDX-License-Identifier: Apache-2.0
// A page of one file: no network, opened from a disk or a mail. All text of others goes through
// `escaped` before it comes here.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/table.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class PageScript : std::uint8_t { none, whole };

/// The whole file: `title` is text, `body` is HTML.
[[nodiscard]] std::string html_page(std::string_view title, std::string_view body,
                                    PageScript script);

/// A table as HTML: values as people read them, numbers to the right; without the columns in
/// which nothing stands.
[[nodiscard]] std::string html_table(const Table& table, std::string_view caption);

/// The picture, and below it the table that says the same.
[[nodiscard]] std::string heatmap_page(const std::vector<Heatmap>& heatmaps);

}  // namespace shardsweep
