// verbs_test: what verbs and rdma_cm promise, asked of a device. Both ends of
// each connection are in this process.
//
//   verbs_test [--provider iwarp|system] [--address 127.0.0.1] [--slow FACTOR]
//              [--scale N] [--results FILE] [gtest's flags]
//              [--crc] [--ulpdu BYTES] [--peer-to-peer] [--helper]
//
// iwarp, the default, is our provider; system is the device of this machine
// that carries the address. The last line is for our provider: checksums on
// loopback too, segments as on a network, RTR messages, a helper thread.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "tests/support/suite_main.h"
#include "tests/verbs/suite.h"
#include "transport/iwarp/options.h"

namespace sluice::verbs {
namespace {

int Run(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  CLI::App app("verbs and rdma_cm conformance");
  SuiteFlags& flags = Flags();
  app.add_option("--provider", flags.provider)
      ->check(CLI::IsMember({"iwarp", "system"}));
  app.add_option("--address", flags.address);
  app.add_option("--slow", flags.slow);
  app.add_option("--scale", flags.scale)->check(CLI::PositiveNumber);
  app.add_option("--results", flags.results);
  bool crc = false;
  app.add_flag("--crc", crc);
  iwarp::Options& options = iwarp::MutableOptions();
  app.add_option("--ulpdu", options.ulpdu_bytes);
  app.add_flag("--peer-to-peer", options.peer_to_peer);
  app.add_flag("--helper", options.helper_thread);
  CLI11_PARSE(app, argc, argv);
  if (crc) options.crc = iwarp::CrcPolicy::kOn;
  conformance::SetSlowness(flags.slow);
  RaiseLimits();
  if (!GTEST_FLAG_GET(list_tests) && !FindDevice()) return 2;
  if (!flags.results.empty()) AppendResultLines(flags.results);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace sluice::verbs

// NOLINTNEXTLINE(bugprone-exception-escape): what it throws, it is to die of
int main(int argc, char** argv) { return sluice::verbs::Run(argc, argv); }
