// SPDX-License-Identifier: Apache-2.0
// Whether a daemon before this one may have submitted an allocation, as its files tell.
#include "daemon/channels.hpp"
#include "unit/folder.hpp"
#include "unit/store/support.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;
using shardsweep::testing::must;

namespace {

struct Found {
  test::Folder folder;
  AllocationRow row{.id = 1, .token = "t", .dir = (folder.path() / "t").string()};
  Channels channels;

  [[nodiscard]] AllocationPaths paths() const { return {row.dir}; }
  void prepared() const {
    std::filesystem::create_directories(row.dir);
    must(LineWriter::open(paths().to_lead()));
    must(write_file_durably(paths().spec(), "{}"));
  }
  [[nodiscard]] bool may_be_submitted() { return must(channels.of(row))->submitted; }
};

}  // namespace

TEST_CASE("what was only committed is to be submitted") {
  Found found;
  CHECK_FALSE(found.may_be_submitted());
}

TEST_CASE("what was prepared may have been submitted, with and without work in it") {
  Found idle;
  idle.prepared();
  CHECK(idle.may_be_submitted());

  Found with_work;
  with_work.prepared();
  auto writer = must(LineWriter::open(with_work.paths().to_lead()));
  must(writer.append(encode(ToLead{1, 1, Assign{.attempt = 5}}), true));
  CHECK(with_work.may_be_submitted());
}

TEST_CASE("what was told to come back later is in no queue") {
  Found found;
  found.prepared();
  found.row.submit_after = 1;
  CHECK_FALSE(found.may_be_submitted());
}
