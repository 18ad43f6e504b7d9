// SPDX-License-Identifier: Apache-2.0
#include "raster/cairo.hpp"

#include <fmt/format.h>

#include <dlfcn.h>

#include <string>

namespace shardsweep {
namespace {

/// Resolves one function after the other, and remembers the first that is missing.
class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}

  template <class Function>
  void resolve(Function*& function, const char* name) {
    void* symbol = ::dlsym(handle_, name);
    if (symbol == nullptr && missing_.empty()) missing_ = name;
    function = reinterpret_cast<Function*>(symbol);
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

void resolve_all(Library& library, Cairo& cairo) {
  library.resolve(cairo.create, "cairo_create");
  library.resolve(cairo.destroy, "cairo_destroy");
  library.resolve(cairo.image_surface_create, "cairo_image_surface_create");
  library.resolve(cairo.surface_destroy, "cairo_surface_destroy");
  library.resolve(cairo.surface_write_to_png_stream, "cairo_surface_write_to_png_stream");
  library.resolve(cairo.status_to_string, "cairo_status_to_string");
  library.resolve(cairo.scale, "cairo_scale");
  library.resolve(cairo.save, "cairo_save");
  library.resolve(cairo.restore, "cairo_restore");
  library.resolve(cairo.clip, "cairo_clip");
  library.resolve(cairo.rectangle, "cairo_rectangle");
  library.resolve(cairo.move_to, "cairo_move_to");
  library.resolve(cairo.line_to, "cairo_line_to");
  library.resolve(cairo.arc, "cairo_arc");
  library.resolve(cairo.new_path, "cairo_new_path");
  library.resolve(cairo.stroke, "cairo_stroke");
  library.resolve(cairo.stroke_preserve, "cairo_stroke_preserve");
  library.resolve(cairo.fill_preserve, "cairo_fill_preserve");
  library.resolve(cairo.set_line_width, "cairo_set_line_width");
  library.resolve(cairo.set_dash, "cairo_set_dash");
  library.resolve(cairo.set_source_rgb, "cairo_set_source_rgb");
  library.resolve(cairo.select_font_face, "cairo_select_font_face");
  library.resolve(cairo.set_font_size, "cairo_set_font_size");
  library.resolve(cairo.text_extents, "cairo_text_extents");
  library.resolve(cairo.show_text, "cairo_show_text");
}

Result<Cairo> open_cairo() {
  // Never closed: fontconfig keeps what it has read until the process ends.
  void* handle = ::dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fault(FaultKind::unavailable,
                 fmt::format("a PNG is drawn by libcairo.so.2, which cannot be loaded: {} "
                             "(Debian: libcairo2 and fonts-dejavu-core). SVG needs nothing: "
                             "write -o FILE.svg",
                             ::dlerror()));
  Library library(handle);
  Cairo cairo{};
  resolve_all(library, cairo);
  if (!library.missing().empty())
    return fault(FaultKind::unavailable,
                 fmt::format("libcairo.so.2 has no {}: version 1.16 or later is needed",
                             library.missing()));
  return cairo;
}

}  // namespace

Result<const Cairo*> load_cairo() {
  static const Result<Cairo> cairo = open_cairo();
  if (!cairo) return tl::unexpected<Fault>(cairo.error());
  return &*cairo;
}

}  // namespace shardsweep
