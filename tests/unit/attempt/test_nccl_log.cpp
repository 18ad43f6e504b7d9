// SPDX-License-Identifier: Apache-2.0
#include "attempt/step_output.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

TEST_CASE("of an NCCL log the first warnings and errors are kept, without where they come from") {
  const std::string log =
      "n3:811:811 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.3<0>\n"
      "n3:811:902 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.3<0>\n"
      "n3:811:955 [0] transport/net_ib.cc:1294 NCCL WARN NET/IB : Got completion from peer "
      "10.0.0.4<42101> with status=12 opcode=0 len=0 vendor err 129\n"
      "n3:811:955 [0] NCCL INFO transport/net.cc:1035 -> 6\n"
      "n3:811:955 [0] transport/net_ib.cc:1294 NCCL WARN NET/IB : Got completion from peer "
      "10.0.0.4<42101> with status=12 opcode=0 len=0 vendor err 129\n"
      "an error of somebody else's\n"
      "n3:811:811 [0] NCCL INFO misc/socket.cc:47 socketProgress: Connection closed, retry "
      "failed\n"
      "n3:811:811 [0] NCCL WARN third";
  CHECK(nccl_complaints(log, 5) ==
      std::vector<std::string>{
          "transport/net_ib.cc:1294 NCCL WARN NET/IB : Got completion from peer "
          "10.0.0.4<42101> with status=12 opcode=0 len=0 vendor err 129",
          "NCCL INFO misc/socket.cc:47 socketProgress: Connection closed, retry failed",
          "NCCL WARN third"});
  CHECK(nccl_complaints(log, 1).size() == 1);
}

TEST_CASE("no NCCL log is too odd to be read") {
  CHECK(nccl_complaints("", 5).empty());
  CHECK(nccl_complaints("\n\n[ NCCL WARN ] ", 5).size() == 1);
  CHECK(nccl_complaints(" [1] NCCL WARN " + std::string(100'000, 'x'), 5).at(0).size() == 300);
  CHECK(nccl_complaints(std::string(100'000, '\n'), 5).empty());
}
