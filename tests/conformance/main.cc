// conformance_test: the raw protocol suite, against a target in this process
// (in-process, the default, or in-process-iwarp), or an external one reached by
// the system's verbs or by our iWARP provider:
//
//   conformance_test --provider system|iwarp --address 10.9.0.1 --port 4420
//                    --nqn NQN --peer sluice|nvmet [--results FILE]
//                    [--slow FACTOR] [--storm N] [--sizing [--queues N]
//                    [--depth N] [--rounds N] [--max-queues N] [--cycles N]]
//                    [gtest's flags]
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/conformance/conformance.h"
#include "tests/conformance/raw_queue.h"
#include "tests/support/suite_main.h"

namespace sluice::conformance {

SuiteFlags& Flags() {
  static SuiteFlags flags;
  return flags;
}

namespace {

void Describe(CLI::App* app, std::string* peer) {
  SuiteFlags& flags = Flags();
  app->add_option("--provider", flags.provider)
      ->check(
          CLI::IsMember({"in-process", "in-process-iwarp", "system", "iwarp"}));
  app->add_option("--address", flags.address);
  app->add_option("--port", flags.port);
  app->add_option("--nqn", flags.nqn);
  app->add_option("--peer", *peer)->check(CLI::IsMember({"sluice", "nvmet"}));
  app->add_option("--slow", flags.slow)->envname("CONFORMANCE_SLOW");
  app->add_option("--results", flags.results);
  app->add_option("--storm", flags.storm_count);
  app->add_flag("--sizing", flags.sizing);
  app->add_option("--queues", flags.queue_count);
  app->add_option("--depth", flags.queue_depth);
  app->add_option("--rounds", flags.round_count);
  app->add_option("--max-queues", flags.max_queues);
  app->add_option("--shared-receives", flags.shared_receives,
                  "of the target in process");
  app->add_option("--cycles", flags.cycle_count);
}

int Run(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  CLI::App app("NVMe-oF/RDMA conformance");
  std::string peer = "sluice";
  Describe(&app, &peer);
  CLI11_PARSE(app, argc, argv);
  SuiteFlags& flags = Flags();
  flags.peer = peer == "nvmet" ? Peer::kNvmet : Peer::kSluice;
  SetSlowness(flags.slow);
  RaiseLimits();

  const bool lists_only = GTEST_FLAG_GET(list_tests);
  if (flags.external() && !lists_only) {
    const absl::Status found = FindExternalTarget();
    if (!found.ok()) {
      std::fprintf(stderr, "conformance_test: no target at %s:%d %s: %s\n",
                   flags.address.c_str(), flags.port, flags.nqn.c_str(),
                   found.ToString().c_str());
      return 2;
    }
  }
  if (!flags.results.empty()) AppendResultLines(flags.results);
  const int code = RUN_ALL_TESTS();
  const FirstCapsules& first = IwarpFirstCapsules();
  if (first.sent_count > 0) {
    std::printf("first capsules that siw lost: %" PRIu64 " of %" PRIu64 "\n",
                first.lost_count, first.sent_count);
  }
  return code;
}

}  // namespace
}  // namespace sluice::conformance

// NOLINTNEXTLINE(bugprone-exception-escape): what it throws, it is to die of
int main(int argc, char** argv) { return sluice::conformance::Run(argc, argv); }
