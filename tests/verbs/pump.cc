#include "tests/verbs/pump.h"

#include <algorithm>

namespace sluice::verbs {
namespace {

std::vector<Pumped*>& All() {
  static std::vector<Pumped*> all;
  return all;
}

}  // namespace

Pumped::Pumped() { All().push_back(this); }

Pumped::~Pumped() {
  All().erase(std::remove(All().begin(), All().end(), this), All().end());
}

void PumpAll() {
  for (Pumped* one : All()) one->Pump();
}

void PumpFor(absl::Duration time) {
  (void)Until([] { return false; }, time);
}

}  // namespace sluice::verbs
