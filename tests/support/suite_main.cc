#include "tests/support/suite_main.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace {

class ResultLines : public ::testing::EmptyTestEventListener {
 public:
  explicit ResultLines(const std::string& path) : file_(path, std::ios::app) {}

  void OnTestEnd(const ::testing::TestInfo& info) override {
    const ::testing::TestResult& result = *info.result();
    const char* word = result.Failed()    ? "FAIL"
                       : result.Skipped() ? "SKIP"
                                          : "PASS";
    std::string why;
    for (int i = 0; i < result.total_part_count(); ++i) {
      const ::testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.passed()) continue;
      absl::StrAppend(&why, why.empty() ? ": " : "; ",
                      absl::StrReplaceAll(part.message(), {{"\n", " "}}));
    }
    file_ << word << " " << info.test_suite_name() << "." << info.name() << why
          << std::endl;
  }

 private:
  std::ofstream file_;
};

}  // namespace

void AppendResultLines(const std::string& path) {
  ::testing::UnitTest::GetInstance()->listeners().Append(new ResultLines(path));
}

void RaiseLimits() {
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  (void)setrlimit(RLIMIT_MEMLOCK, &limit);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sluice
