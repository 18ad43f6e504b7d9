// SPDX-License-Identifier: Apache-2.0
// Memory of a rank: one arena per class, each with its high-water mark, under one limit.
//
// What is charged is what is live, exactly the bytes asked for. An arena that was reserved is
// one allocation of the device, within which blocks have places; what lies outside of them is
// kept for the next request of the same size. So steady train steps do not call the system.
#pragma once

#include "device/dtype.hpp"
#include "parallel/places.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace shardbench {

/// Source of memory.
class Allocator {
 public:
  virtual ~Allocator() = default;
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// Null when there is none left.
  virtual std::byte* allocate(i64 bytes) = 0;
  virtual void release(std::byte* data, i64 bytes) = 0;
};

enum class MemoryClass { parameters, gradients, optimizer, activations, workspace, communication };
constexpr std::size_t memory_class_count = 6;
std::string_view memory_class_name(MemoryClass kind);

/// Bytes of each class, in enum order.
using BytesByClass = std::array<i64, memory_class_count>;

class Memory;

/// An owned piece of device memory; gives itself back.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { reset(); }

  std::byte* data() const { return data_; }
  i64 bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  void reset();

 private:
  friend class Memory;
  Memory* owner_ = nullptr;
  std::byte* data_ = nullptr;
  i64 bytes_ = 0;
  MemoryClass kind_ = MemoryClass::workspace;
};

class Memory {
 public:
  Memory(Allocator& source, std::optional<i64> limit_bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Allocates the arenas, once and before any block. Ends the rank with class oom, naming the
  /// class, when the device refuses.
  void reserve(const BytesByClass& bytes);
  /// Blocks get places from here on, however many: their extents are what reserve() will need.
  void measure_arenas();
  BytesByClass arena_extents() const;
  /// Place of each reserved arena.
  struct Extent {
    std::byte* base;
    i64 bytes;
  };
  std::vector<Extent> reserved_extents() const;
  /// How often the source was asked for memory, arenas included.
  i64 source_allocations() const { return source_allocations_; }

  /// Uninitialised memory. Ends the rank with class oom, naming class, bytes and `what`, when
  /// the limit or the device refuses. Zero bytes give a valid block.
  Block allocate(MemoryClass kind, i64 bytes, std::string_view what);

  /// Reserved bytes of all arenas together.
  i64 reserved_bytes() const;
  i64 in_use_bytes() const { return in_use_; }
  i64 peak_bytes() const { return peak_; }
  i64 peak_bytes(MemoryClass kind) const { return arena(kind).peak; }
  i64 in_use_bytes(MemoryClass kind) const { return arena(kind).in_use; }

 private:
  friend class Block;
  struct Arena {
    i64 in_use = 0;
    i64 peak = 0;
    i64 reserved = 0;
    std::byte* base = nullptr;
    Places places{0};
    bool holds(const std::byte* data) const {
      // Compare by offset: pointers of different blocks have no order.
      const auto at = reinterpret_cast<std::uintptr_t>(data);
      const auto first = reinterpret_cast<std::uintptr_t>(base);
      return at >= first && at - first < static_cast<std::uintptr_t>(reserved);
    }
  };
  const Arena& arena(MemoryClass kind) const { return arenas_[static_cast<std::size_t>(kind)]; }
  void release(Block& block);
  std::byte* place(Arena& arena, i64 bytes);
  std::byte* ask_source(i64 bytes);
  void give_back_free_list();
  [[noreturn]] void refuse(MemoryClass kind, i64 bytes, std::string_view what) const;

  Allocator& source_;
  std::optional<i64> limit_;
  i64 in_use_ = 0;
  i64 peak_ = 0;
  std::array<Arena, memory_class_count> arenas_{};
  i64 source_allocations_ = 0;
  std::map<i64, std::vector<std::byte*>> free_by_size_;
};

}  // namespace shardbench
