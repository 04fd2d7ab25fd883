#include "transport/iwarp/options.h"

namespace sluice::iwarp {

Options& MutableOptions() {
  static auto* options = new Options;
  return *options;
}

const Options& GetOptions() { return MutableOptions(); }

}  // namespace sluice::iwarp
