// What the programs of the larger suites do before their tests:
// conformance_test and verbs_test, natively and in the lab.
#pragma once

#include <string>

namespace sluice {

// Appends a line for each test to the file, when it ends: PASS name,
// FAIL name: why, SKIP name: why. The scripts of tests/interop read it.
void AppendResultLines(const std::string& path);

// Hundreds of connections, each with descriptors and memory of its own. siw
// counts what is registered for root, too.
void RaiseLimits();

}  // namespace sluice
