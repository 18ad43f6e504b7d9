// SPDX-License-Identifier: Apache-2.0
// A PNG is the drawing's SVG, painted by the program rsvg-convert. It reads a file: an SVG is
// larger than what a command line holds.
#include "picture/svg.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/drawing.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace shardsweep {
namespace {

constexpr double points_per_inch = 72;
constexpr double print_quality = 300;   // dots per inch
constexpr double most_pixels = 16'000;  // pixels of the longer side
constexpr std::chrono::seconds limit{60};
constexpr std::size_t most_bytes = 256 << 20;

/// A file of our own in the folder for temporary files, removed with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::error_code error;
    const auto folder = std::filesystem::temp_directory_path(error);
    name_ = ((error ? "/tmp" : folder) / "shardsweep-XXXXXX.svg").string();
    const int descriptor = ::mkostemps(name_.data(), 4, O_CLOEXEC);
    if (descriptor < 0) return;
    ::close(descriptor);
    std::ofstream file(name_, std::ios::binary);
    written_ = file.write(text.data(), static_cast<std::streamsize>(text.size())).flush().good();
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(name_, ignored);
  }

  [[nodiscard]] bool written() const { return written_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  bool written_ = false;
};

}  // namespace

Result<std::string> png_bytes(const Drawing& drawing, std::int64_t width) {
  if (find_on_path("rsvg-convert").empty()) {
    return fault(FaultKind::unavailable,
        "a PNG is painted by the program rsvg-convert, which is not on PATH (Debian: librsvg2-bin "
        "and fonts-dejavu-core). SVG needs nothing: write -o FILE.svg");
  }
  const TemporaryFile svg(svg_text(drawing, SvgUse::file));
  if (!svg.written()) return fault(FaultKind::unavailable, "'{}' can't be written", svg.name());
  const double longest = std::max({drawing.width, drawing.height, 1.0});
  const double wanted = width > 0
      ? (static_cast<double>(width) - 0.5) / std::max(drawing.width, 1.0)
      : print_quality / points_per_inch;
  const double zoom = std::min(wanted, most_pixels / longest);
  CommandOptions options;
  options.deadline = limit;
  options.output_limit = most_bytes;
  SHARDSWEEP_ASSIGN(auto painted,
      run_command({"rsvg-convert", "--format=png", fmt::format("--zoom={:.6f}", zoom), svg.name()},
          options));
  if (painted.exit_code != 0 || painted.truncated) {
    return fault(FaultKind::unavailable, "rsvg-convert failed: {}",
        painted.truncated ? "the picture is too large"
                          : painted.err.substr(0, painted.err.find('\n')));
  }
  return std::move(painted.out);
}

}  // namespace shardsweep
