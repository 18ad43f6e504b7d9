// SPDX-License-Identifier: Apache-2.0
// Cairo, loaded when a PNG is drawn. Nothing of its headers is needed to build, so that a first
// build does not wait for the eighty packages behind them.
#pragma once

#include <shardsweep/result.hpp>

namespace shardsweep {

/// The functions that are used, as cairo 1.16's reference declares them.
struct Cairo {
  struct Context;
  struct Surface;
  struct TextExtents {
    double x_bearing, y_bearing, width, height, x_advance, y_advance;
  };
  enum Format : int { rgb24 = 1 };
  enum Slant : int { upright = 0 };
  enum Weight : int { normal = 0, bold = 1 };
  using Status = int;
  static constexpr Status success = 0;
  using Write = Status (*)(void* closure, const unsigned char* data, unsigned length);

  Context* (*create)(Surface*);
  void (*destroy)(Context*);
  Surface* (*image_surface_create)(Format, int width, int height);
  void (*surface_destroy)(Surface*);
  Status (*surface_write_to_png_stream)(Surface*, Write, void* closure);
  const char* (*status_to_string)(Status);
  void (*scale)(Context*, double, double);
  void (*save)(Context*);
  void (*restore)(Context*);
  void (*clip)(Context*);
  void (*rectangle)(Context*, double x, double y, double width, double height);
  void (*move_to)(Context*, double, double);
  void (*line_to)(Context*, double, double);
  void (*arc)(Context*, double x, double y, double radius, double begin, double end);
  void (*new_path)(Context*);
  void (*stroke)(Context*);
  void (*stroke_preserve)(Context*);
  void (*fill_preserve)(Context*);
  void (*set_line_width)(Context*, double);
  void (*set_dash)(Context*, const double* lengths, int count, double offset);
  void (*set_source_rgb)(Context*, double, double, double);
  void (*select_font_face)(Context*, const char* family, Slant, Weight);
  void (*set_font_size)(Context*, double);
  void (*text_extents)(Context*, const char* text, TextExtents*);
  void (*show_text)(Context*, const char* text);
};

/// Loaded once. A fault says which package brings the library.
[[nodiscard]] Result<const Cairo*> load_cairo();

}  // namespace shardsweep
