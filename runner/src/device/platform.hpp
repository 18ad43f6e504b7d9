// SPDX-License-Identifier: Apache-2.0
// What a program runs on: a device, and the communicators that reach its memory. Each program
// is made of the list of its platforms; the meta device is in all of them.
#pragma once

#include "base/json.hpp"
#include "communication/communicator.hpp"
#include "communication/mesh.hpp"
#include "device/device.hpp"
#include "device/memory.hpp"
#include "measurement/pace.hpp"
#include "measurement/recorder.hpp"
#include "parallel/groups.hpp"
#include "program/options.hpp"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace shardbench {

/// Connections of a rank, once the ranks have met. All outlive the communicators made of them.
struct Connection {
  Mesh& mesh;
  Memory& memory;       // memory of the device
  Memory& host_memory;  // memory of the host; the same object if the device is the host
  FlightRecorder* recorder;
  double limit_s;  // limit of one wait
};

/// One rank's hardware, opened.
class Platform {
 public:
  virtual ~Platform() = default;
  Platform() = default;
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;

  virtual Device& device() = 0;
  /// Source of the host's memory: device() itself if that is the host.
  virtual Allocator& host() = 0;
  /// Hardware and libraries, for the start record.
  virtual void describe(JsonObject& start) const = 0;
  /// A communicator over buffers of the device. Collective over the group.
  virtual std::unique_ptr<Communicator> connect(const Connection& connection, Group group) = 0;
  /// Size of the all-reduce that tells how fast the network is: enough for bandwidth to count.
  virtual i64 probe_bytes() const = 0;
  /// The arenas lie where they stay: before training, after all groups are connected.
  virtual void reserved(const Memory& memory) { (void)memory; }
  /// Called after a train step whose time is taken: work that would disturb a step is done here.
  virtual void between_steps() {
    if (pace_.is_due()) pace_.add(look_at_pace());
  }
  /// The train steps that follow are timed.
  void timed_steps_begin() { pace_.forget(); }
  /// Pace of this rank's hardware since timed_steps_begin().
  Pace pace() const { return pace_.pace(); }
  /// All communication has ended well; collective over the world.
  virtual void disconnect() {}
  /// This rank fails: nothing of it may keep its peers waiting.
  virtual void abort() {}
  /// Adds the hardware's figures on the run to the result record.
  virtual void add_result(JsonObject& result, const Memory& memory) {
    (void)result;
    (void)memory;
  }

 private:
  /// Clock, power and what holds them back, at this moment.
  virtual PaceLook look_at_pace() { return {}; }

  PaceSampler pace_;
};

/// A communicator over memory of the host, whatever the platform.
std::unique_ptr<Communicator> connect_host(const Connection& connection, Group group);
/// Makes a layout's groups, which exchange the device's data. Both arguments outlive the groups.
GroupMaker group_maker(Platform& platform, const Connection& connection);

/// A kind of platform that a program knows.
struct PlatformKind {
  std::string_view device;              // --device
  std::vector<Dtype> dtypes;            // --dtype; the first is the default
  std::vector<std::string_view> comms;  // --comm; likewise
  /// Ends the rank where the hardware can't be used.
  std::function<std::unique_ptr<Platform>(const Options&)> open;
  /// How attention can be computed; the first that the hardware and its libraries have is
  /// taken.
  std::vector<std::string_view> attentions = {};
};

/// The first is the program's default.
using Platforms = std::vector<PlatformKind>;

/// Null if there is none of that name.
const PlatformKind* find_platform(const Platforms& platforms, std::string_view device);

}  // namespace shardbench
